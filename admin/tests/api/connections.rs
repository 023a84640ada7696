//! What one address, and one slow client, may take of the listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use admin::{CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::rig::{Rig, WRITE_TIME_MAX};

/// The longest wait for anything; reached only when something is broken.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A connection from one of many addresses of this machine.
async fn connect(from: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, from), 0).into()).unwrap();
    timeout(WAIT_MAX, socket.connect(to)).await.unwrap().unwrap()
}

/// What is answered to one request; nothing where the connection is closed.
async fn ask(connection: &mut TcpStream) -> String {
    let request = b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n";
    let asked = async {
        connection.write_all(request).await?;
        let mut line = vec![0; 12];
        connection.read_exact(&mut line).await.map(|_| line)
    };
    let answered = timeout(WAIT_MAX, asked).await.expect("an answer or an end");
    answered.map(|line| String::from_utf8(line).unwrap()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_does_not_take_all_connections() {
    one_address_has_its_seats(Rig::sqlite().await).await;
}

pub async fn one_address_has_its_seats(rig: Rig) {
    let mut own = vec![];
    for _ in 0..CONNECTIONS_PER_ADDRESS_MAX {
        let mut connection = connect(2, rig.address).await;
        assert_eq!(ask(&mut connection).await, "HTTP/1.1 404");
        own.push(connection);
    }
    for _ in 0..3 {
        assert_eq!(ask(&mut connect(2, rig.address).await).await, "", "one too many");
    }
    assert_eq!(ask(&mut connect(3, rig.address).await).await, "HTTP/1.1 404", "another address");
    own.pop();
    let again = async {
        while ask(&mut connect(2, rig.address).await).await.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_MAX, again).await.expect("a place that was given back is taken again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_does_not_end_holds_nobody_up() {
    let rig = Rig::sqlite().await;
    let mut slow = vec![];
    for number in 0..CONNECTIONS_MAX {
        let from = u8::try_from(2 + number / CONNECTIONS_PER_ADDRESS_MAX).unwrap();
        let mut connection = connect(from, rig.address).await;
        connection.write_all(b"GET /v1/tenants HTTP/1.1\r\nhost: x\r\n").await.unwrap();
        slow.push(connection);
    }
    let answer = rig.get(&rig.operator, "/v1/tenants").await;
    assert_eq!(answer.status, 200, "who came last has its turn when the slow ones are cut");
    let mut said = vec![];
    // The server closes it, with or without a word.
    let _ended = timeout(WAIT_MAX, slow.pop().unwrap().read_to_end(&mut said)).await.expect("it is closed");
}

/// Asks for the document very often and takes nothing until a good while later: whether all answers were sent then.
async fn all_answers_come(rig: &Rig, pause: Duration) -> bool {
    const ASKED: usize = 400;
    let length = rig.get("", "/openapi.json").await.text.len();
    let (mut reading, mut writing) = connect(2, rig.address).await.into_split();
    let asking = tokio::spawn(async move {
        let request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(ASKED);
        // Who is cut cannot ask for more.
        let _asked = writing.write_all(&request).await;
        writing
    });
    sleep(pause).await;
    let (mut read, mut buffer) = (0, vec![0; 65_536]);
    let taking = async {
        while read < ASKED * length {
            match reading.read(&mut buffer).await {
                Ok(0) | Err(_) => return false,
                Ok(more) => read += more,
            }
        }
        true
    };
    let came = timeout(WAIT_MAX, taking).await.expect("all answers, or an end");
    drop(asking.await);
    came
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_nothing_is_cut() {
    who_takes_nothing_is_cut(Rig::sqlite().await).await;
}

pub async fn who_takes_nothing_is_cut(rig: Rig) {
    assert!(all_answers_come(&rig, Duration::ZERO).await, "the control: who takes them gets them");
    assert!(!all_answers_come(&rig, WRITE_TIME_MAX * 4).await, "who took none was waited for");
}
