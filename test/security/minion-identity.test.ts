import test from 'ava';
import { packWire, sealCrypticle, sealValue, unpackWire } from '../../minion-protocol/index.ts';
import { within } from '../helpers/deadline.ts';
import { altered, recorded } from '../helpers/vector-requests.ts';
import { openDoor, WIRES } from './doors.ts';
import {
  askAs,
  bothAreHeard,
  HOSTILE,
  hostile,
  oldRequest,
  requestBy,
  SECRET,
  startSite,
  VICTIM,
  victim,
} from './site.ts';

// One after the other, because each master here has worker threads for RSA.
for (const wire of WIRES) {
  test.serial(`over ${wire}, nobody speaks as another minion`, async (t) => {
    const site = await startSite(t, wire);
    const { door, operator } = site;
    const load = { cmd: '_minion_event', tag: 'minion_start', data: {} };
    const changes = await site.changesBy(async () => {
      const events = await operator.eventsDuring(async () => {
        const forged = [
          requestBy(hostile, { ...load, id: VICTIM }),
          requestBy({ ...hostile, id: VICTIM }, load),
          requestBy({ ...victim, key: hostile.key }, load),
          requestBy({ ...victim, token: hostile.token, key: hostile.key }, load),
          requestBy(hostile, { ...load, tok: victim.token }),
          requestBy(hostile, { ...load, tok: undefined }),
          requestBy(hostile, { ...load, tok: null }),
          requestBy(hostile, { ...load, tok: [1] }),
          oldRequest({ ...load, id: VICTIM }),
          oldRequest({ ...load, id: VICTIM, tok: hostile.token }),
        ];
        for (const request of forged) t.is(unpackWire(await door.ask(request)), 'bad load');
      });
      t.deepEqual(events, []);
    });
    t.deepEqual(changes, []);
    for (let turn = 0; turn < 4; turn += 1) await bothAreHeard(t, site);
  });

  test.serial(
    `over ${wire}, a signal that is replayed is fired once, a stale one never`,
    async (t) => {
      const { door, operator } = await startSite(t, wire);
      const tag = `salt/beacon/${HOSTILE}/load`;
      const once = requestBy(hostile, { cmd: '_minion_event', tag, data: {} });
      const events = await operator.eventsDuring(async () => {
        const first = await door.ask(once);
        for (let turn = 0; turn < 3; turn += 1) {
          t.is((await door.ask(once)).length, first.length, 'answered alike');
        }
      });
      t.is(events.length, 1);
      const now = operator.clock.now / 1000;
      for (const ts of [now - 301, now + 301, 0, -1, 'now', null, [now], undefined]) {
        const request = requestBy(hostile, { cmd: '_minion_event', tag, data: {}, ts });
        t.deepEqual(await operator.eventsDuring(() => door.ask(request)), []);
      }
      for (const nonce of ['', 'x'.repeat(32), 'a'.repeat(33), 7, null]) {
        const request = altered(recorded('minion_event', 'start event v3'), { load: { nonce } });
        t.deepEqual(await operator.eventsDuring(() => door.ask(request)), []);
      }
    },
  );

  test.serial(`over ${wire}, garbage inside the encryption costs one request each`, async (t) => {
    const site = await startSite(t, wire);
    const outer = recorded('minion_event', 'start event v3');
    const bodies = ['', 'pickle::', 'no prefix', 'pickle::\xc1', 'pickle::\xdf\xff\xff\xff\xff'];
    const events = await site.operator.eventsDuring(async () => {
      for (const body of [...bodies, `pickle::${'\x91'.repeat(5000)}`]) {
        const load = sealCrypticle(hostile.key, Buffer.from(body, 'latin1'));
        const envelope = { ...Object(unpackWire(altered(outer, {}))), load };
        await site.door.ask(packWire(envelope));
      }
      for (const value of [null, 7, 'text', [], [{}], { cmd: 7 }, { cmd: null }]) {
        const load = sealValue(hostile.key, value);
        await site.door.ask(packWire({ ...Object(unpackWire(altered(outer, {}))), load }));
      }
    });
    t.deepEqual(events, []);
    for (let turn = 0; turn < 4; turn += 1) await bothAreHeard(t, site);
  });

  test.serial(
    `over ${wire}, a deleted key ends at once, and leaves nothing to who comes after`,
    async (t) => {
      const site = await startSite(t, wire, { config: { autoAccept: true } });
      await bothAreHeard(t, site);
      await askAs(hostile, site.door, { cmd: '_mine', data: { fun: SECRET } });
      const rotations = site.operator.master.events.subscribe({ match: 'key' });
      const rotated = rotations[Symbol.asyncIterator]().next();
      await site.operator.master.keys.delete({ match: HOSTILE });
      await within('the rotation', rotated);
      const again = await openDoor(t, wire, site.requestPort);
      const start = { cmd: '_minion_event', tag: 'minion_start', data: {} };
      const events = await site.operator.eventsDuring(async () => {
        t.is(unpackWire(await again.ask(requestBy(hostile, start))), 'bad load');
        t.is(unpackWire(await again.ask(oldRequest(start))), 'bad load');
      });
      t.deepEqual(events, []);
      const rows = [...(await site.inventory()).keys()].filter((name) => name.includes(HOSTILE));
      t.deepEqual(rows, []);
      t.is(await askAs(victim, again, { ...start, tag: `salt/minion/${VICTIM}/start` }), null);
    },
  );
}
