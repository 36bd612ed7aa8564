/** Checks what a guest that is an accepted minion can learn about others. */

import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { type Bridge, createBridge } from '#guests';
import type { WireValue } from '#minion-protocol';
import { freshNonce, openReply, recorded } from '../helpers/vector-requests.ts';
import {
  type Actor,
  askAs,
  HOSTILE,
  hostile,
  oldRequest,
  SECRET,
  type Site,
  startSite,
  VICTIM,
  victim,
} from './site.ts';

interface GuestSite extends Site {
  readonly bridge: Bridge;
}

const guests = allow('guests', {
  subject: { minion: '*' },
  action: 'runner',
  resource: { fun: 'saltbridge_data.*' },
});

async function start(t: ExecutionContext, rules = [guests], pins = {}): Promise<GuestSite> {
  const bridge = createBridge({ extensions: { 'data-spaces': true } });
  const acl = { signals: [], rules, mode: 'enforce', learnActions: [], recordData: false } as const;
  const site = await startSite(t, 'zeromq', { extensions: [bridge], config: { acl }, pins });
  await bridge.data.add({
    name: 'of the victim'.replaceAll(' ', '-'),
    roles: {
      db: { minions: [VICTIM], writes: { password: { secret: true }, port: {} } },
      app: { minions: ['somebody'], reads: { password: 'db/password', port: 'db/port' } },
    },
  });
  return { ...site, bridge };
}

/** Calls a runner like a minion with `publish.runner`. */
async function call(
  actor: Actor,
  site: Site,
  fun: string,
  kwarg: Readonly<Record<string, WireValue>>,
): Promise<string> {
  const arg = [{ ...kwarg, __kwarg__: true }];
  return JSON.stringify(await askAs(actor, site.door, { cmd: 'minion_runner', fun, arg }));
}

test('a guest cannot read or write data of a stack in which it has no role', async (t) => {
  const site = await start(t);
  const written = await call(victim, site, 'saltbridge_data.put', {
    key: 'db/password',
    value: SECRET,
  });
  t.regex(written, /"version":1/);
  const asked = ['db/password', 'db/port', '../spaces', 'values', ''];
  const changed = await site.changesBy(async () => {
    for (const key of asked) {
      const read = await call(hostile, site, 'saltbridge_data.get', { key, wait: 0 });
      const put = await call(hostile, site, 'saltbridge_data.put', { key, value: 'x' });
      t.regex(read, /ERR_DATA_(FORM|UNKNOWN)/, key);
      t.regex(put, /ERR_DATA_(FORM|UNKNOWN)/, key);
      t.false((read + put).includes(SECRET));
      // The reply must name neither the stack nor its minions.
      t.false((read + put).includes(VICTIM));
    }
  });
  t.deepEqual(changed, []);
});

test('a guest that claims to be another guest is treated as itself', async (t) => {
  const site = await start(t);
  const lies = [{ minion: VICTIM }, { id: VICTIM }, { stack: 'of-the-victim' }];
  for (const lie of lies) {
    const asked = { key: 'db/port', value: 'x', ...lie };
    t.regex(await call(hostile, site, 'saltbridge_data.put', asked), /ERR_DATA_FORM/);
  }
  const details = await site.bridge.data.show('of-the-victim');
  t.true(details.values.every(({ bytes }) => bytes === undefined));
});

test('without a rule, a guest learns nothing, not even whether a data space exists', async (t) => {
  const site = await start(t, []);
  for (const actor of [hostile, victim]) {
    t.is(await call(actor, site, 'saltbridge_data.get', { key: 'db/port' }), '{}');
    t.is(await call(actor, site, 'saltbridge_data.put', { key: 'db/port', value: 'x' }), '{}');
  }
});

test('a secret value is not sent to a minion whose replies others can decrypt', async (t) => {
  const site = await start(t, [guests], { [HOSTILE]: 2 });
  await site.bridge.data.add({
    name: 'own',
    roles: {
      db: { minions: ['writer'], writes: { password: { secret: true }, port: {} } },
      app: { minions: [HOSTILE], reads: { password: 'db/password', port: 'db/port' } },
    },
  });
  const vector = recorded('minion_event', 'start event v2');
  const ask = async (key: string): Promise<string> => {
    const nonce = freshNonce();
    const arg = [{ key, wait: 0, __kwarg__: true }];
    const load = { cmd: 'minion_runner', fun: 'saltbridge_data.get', arg };
    return JSON.stringify(openReply(vector, await site.door.ask(oldRequest(load, nonce)), nonce));
  };
  t.regex(await ask('db/password'), /ERR_DATA_DENIED.*secret/);
  t.regex(await ask('db/port'), /ERR_DATA_TIMEOUT/);
});
