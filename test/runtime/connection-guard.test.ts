import test from 'ava';
import {
  type ConnectionLimits,
  DEFAULT_CONNECTION_LIMITS,
} from '../../minion-protocol/transport/stream-listener.ts';
import { ConnectionGuard, type GuardedConnection } from '../../runtime/index.ts';

test('connections of one IPv6 network of 64 bits share their limits, others do not', (t) => {
  const { connect } = guard({ maxNewConnectionsPerAddress: 2 });
  const first = connect('2001:db8:0:1::1');
  connect('2001:db8:0:1:aaaa::2');
  const other = connect('2001:db8:0:2::1');
  t.true(first.isOpen());
  connect('2001:db8:0:1:bbbb:cccc::3');
  t.false(first.isOpen());
  t.true(other.isOpen());
  t.true(connect('::1').isOpen());
});

test('a known address is free of the limits for strangers', (t) => {
  const { connect } = guard({ maxNewConnectionsPerAddress: 2, maxHeldBytesPerAddress: 100 });
  const known = connect('10.0.0.1');
  known.connection?.identify('minion');
  const others = [1, 2, 3, 4].map(() => connect('10.0.0.1'));
  for (const { connection } of others) connection?.setHeldBytes(1000);
  t.true(others.every(({ isOpen }) => isOpen()));
});

test('an address is no stranger to room being made, once known', (t) => {
  const { connect } = guard({ maxConnections: 2 });
  const known = connect('10.0.0.1');
  known.connection?.identify('minion');
  const stranger = connect('10.0.0.2');
  const next = connect('10.0.0.1');
  t.deepEqual(
    [known, stranger, next].map(({ isOpen }) => isOpen()),
    [true, false, true],
  );
  t.false(connect('10.0.0.3').isOpen());
  t.true(next.isOpen());
});

test('the address heard longest ago is forgotten first', (t) => {
  const { connect } = guard({ maxKnownAddresses: 2, maxHeldBytesPerAddress: 100 });
  const connections = ['10.0.0.1', '10.0.0.2', '10.0.0.1', '10.0.0.3'].map((address) => {
    const opened = connect(address);
    opened.connection?.identify('minion');
    return opened;
  });
  for (const { connection } of connections) connection?.setHeldBytes(101);
  t.deepEqual(
    connections.map(({ isOpen }) => isOpen()),
    [true, false, true, true],
  );
});

test('disconnecting a minion forgets its address and leaves other minions connected', (t) => {
  const { table, connect } = guard({ maxHeldBytesPerAddress: 100 });
  const one = connect('10.0.0.1');
  one.connection?.identify('one');
  const two = connect('10.0.0.1');
  two.connection?.identify('two');
  table.disconnect('one');
  t.deepEqual(
    [one, two].map(({ isOpen }) => isOpen()),
    [false, true],
  );
  two.connection?.setHeldBytes(101);
  t.false(two.isOpen());
});

test('what an ended connection held is given back', (t) => {
  const { connect } = guard({ maxHeldBytesPerAddress: 100, maxHeldBytes: 100 });
  for (let round = 0; round < 50; round += 1) {
    const opened = connect('10.0.0.1');
    opened.connection?.setHeldBytes(90);
    t.true(opened.isOpen());
    opened.connection?.end();
  }
});

test('a connection is ended once, and only once counted', (t) => {
  const { table, connect } = guard({});
  const opened = connect('10.0.0.1');
  opened.connection?.refuse('reason');
  opened.connection?.refuse('reason');
  opened.connection?.end();
  t.is(opened.ends(), 1);
  t.deepEqual(table.refusals(), { reason: 1 });
});

interface Opened {
  readonly connection: GuardedConnection | undefined;
  isOpen(): boolean;
  ends(): number;
}

function guard(limits: Partial<ConnectionLimits>) {
  const table = new ConnectionGuard({ ...DEFAULT_CONNECTION_LIMITS, ...limits }, () => 0);
  const connect = (address: string): Opened => {
    let ends = 0;
    const onEnd = () => {
      ends += 1;
    };
    const rules = { awaitsRequest: true, keepsStalled: false };
    const connection = table.admit(address, rules, { onEnd, finish: () => {} });
    return { connection, isOpen: () => ends === 0, ends: () => ends };
  };
  return { table, connect };
}
