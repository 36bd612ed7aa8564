/** Limits of log-ins count IPv6 networks of 64 bits, and no source takes the share of another. */

import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { FailedLogins } from '#master/users/failed-logins.ts';
import { LoginSlots } from '#master/users/login-slots.ts';

const addressIn = (network: number, host: number) => `2001:db8:0:${network.toString(16)}::${host}`;

test('failed log-ins from one IPv6 network are counted together', (t) => {
  const failed = new FailedLogins(() => 0);
  const begun = Array.from({ length: 256 }, (_, host) => failed.begin('ops', addressIn(1, host)));
  t.is(begun.filter((it) => it !== undefined).length, 5);
  t.not(failed.begin('ops', addressIn(2, 1)), undefined);
});

test('a source cannot cycle through user names until its failures are forgotten', (t) => {
  const failed = new FailedLogins(() => 0);
  for (let n = 0; n < 5; n += 1) failed.begin('ops', '10.0.0.1');
  for (let n = 0; n < 5000; n += 1) failed.begin(`user ${n}`, '10.0.0.1');
  t.is(failed.begin('ops', '10.0.0.1'), undefined);
  t.not(failed.begin('ops', '10.0.0.2'), undefined);
});

test('a log-in that did not fail takes nothing from its source', (t) => {
  const failed = new FailedLogins(() => 0);
  for (let n = 0; n < 5000; n += 1) failed.begin(`user ${n % 10}`, '10.0.0.1')?.();
  t.not(failed.begin('ops', '10.0.0.1'), undefined);
});

test('overlapping log-ins that did not fail do not count as failures', (t) => {
  let now = 0;
  const failed = new FailedLogins(() => now);
  let previous = failed.begin('ops', '10.0.0.1');
  for (let n = 0; n < 20; n += 1) {
    now += 100;
    const next = failed.begin('ops', '10.0.0.1');
    t.not(next, undefined);
    previous?.();
    previous = next;
  }
});

test('many sources do not take the slots of a new one', (t) => {
  const slots = new LoginSlots();
  for (let network = 0; network < 100; network += 1) {
    t.notThrows(() => slots.enter(addressIn(network, 1)));
    for (let host = 2; host < 30; host += 1) {
      try {
        slots.enter(addressIn(network, host));
      } catch {
        // Rejected.
      }
    }
  }
  t.notThrows(() => slots.enter('10.0.0.1'));
});

test('the known addresses of a user are not evicted by those of another', (t) => {
  const slots = new LoginSlots();
  slots.succeeded('pam', 'honest', '10.0.0.1');
  for (let network = 0; network < 20_000; network += 1) {
    slots.succeeded('pam', 'other', addressIn(network, 1));
  }
  // Strangers are full; a known address has slots of its own.
  for (let network = 0; network < 300; network += 1) {
    try {
      slots.enter(addressIn(40_000 + network, 1));
    } catch {
      // Rejected.
    }
  }
  t.throws(() => slots.enter('10.0.0.9'), { code: 'ERR_EAUTH_LIMIT' });
  t.notThrows(() => slots.enter('10.0.0.1'));
});

test('a backend answers sources in turns', async (t) => {
  const slots = new LoginSlots();
  const order: string[] = [];
  const ask = (address: string) =>
    slots.enter(address).ask('pam', async () => {
      await turn();
      order.push(address);
    });
  await Promise.all([...Array.from({ length: 16 }, () => '10.0.0.1'), '10.0.0.2'].map(ask));
  t.true(order.indexOf('10.0.0.2') < 10, order.join());
});
