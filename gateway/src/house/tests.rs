use audit::{AuditLog, LogKey, Record};
use tenant::{Pepper, Store};
use wire::{Cause, Unsound};

use super::*;

/// More than a recorder takes at one turn.
const MANY: u32 = 1_000;

/// On one thread, so that the end of the gateway is there before the recorder has come through.
#[tokio::test]
async fn alarms_that_wait_when_the_gateway_ends_are_on_disk_when_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let store =
        Store::open(&at("tenants.db"), Pepper::load_or_create(&at("pepper.key")).unwrap()).await.unwrap();
    let (audit, _) = AuditLog::open(&at("audit"), LogKey::generate("test.example/log").unwrap()).unwrap();
    let config = GatewayConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        admin: "127.0.0.1:0".parse().unwrap(),
        engine_socket: at("engine.sock"),
        wire_key: WireKey::new([7; 32]),
        policy: policies::PolicyStore::open(&at("policy")).unwrap().load(None).unwrap(),
    };
    let model = std::env::var_os("BULKHEAD_TEST_MODEL").unwrap();
    let (ledger, _) =
        tenant::Ledger::open(&at("ledger"), tenant::UnixMillis::from_system(SystemTime::now())).unwrap();
    let parts = Parts {
        ledger: Arc::new(ledger),
        store: store.clone(),
        directory: Arc::new(Directory::open(&store).await.unwrap()),
        model: Arc::new(ModelText::load(model.as_ref()).unwrap()),
        audit: Arc::new(audit),
        counting: Counting::Alone,
    };
    let gateway = Gateway::bind(config, parts).await.unwrap();
    for number in 0..MANY {
        gateway.alarms.0.try_send(Alarm { number, epoch: 3, cause: Cause::Unsound(Unsound::Read) }).unwrap();
    }
    gateway.run(async {}).await.unwrap();
    let mut alarms = 0;
    audit::read_leaves(&at("audit"), 0, &mut |_, leaf| {
        alarms += u32::from(matches!(leaf.event, Record::Alarm(_)))
    })
    .unwrap();
    assert_eq!(alarms, 1_000);
}
