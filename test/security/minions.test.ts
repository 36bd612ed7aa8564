import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  isWireMap,
  packWire,
  sealValue,
  unpackWire,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { sealCrypticle } from '#minion-protocol/crypt.ts';
import { within } from '../helpers/deadline.ts';
import { altered, freshNonce, recorded } from '../helpers/vector-requests.ts';
import { pem } from '../helpers/vectors.ts';
import { openDoor, WIRES } from './doors.ts';
import {
  askAs,
  bothAreHeard,
  HOSTILE,
  hostile,
  type Load,
  oldRequest,
  openPillarOf,
  requestBy,
  SECRET,
  type Site,
  startSite,
  VICTIM,
  victim,
} from './site.ts';

// These tests run serially, because each master has worker threads for RSA.
for (const wire of WIRES) {
  test.serial(`over ${wire}, a minion cannot act as another minion`, async (t) => {
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
    `over ${wire}, a replayed signal is fired once, and a stale signal is not fired`,
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

  test.serial(
    `over ${wire}, invalid bytes inside the encryption fail only their own request`,
    async (t) => {
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
    },
  );

  test.serial(
    `over ${wire}, deleting a key takes effect at once, and its successor inherits nothing`,
    async (t) => {
      const site = await startSite(t, wire, { config: { autoAccept: true } });
      await bothAreHeard(t, site);
      await askAs(hostile, site.door, { cmd: '_mine', data: { fun: SECRET } });
      const rotations = await site.operator.master.events.subscribe({ match: 'key' });
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

// In the following tests, an accepted minion tries to read and write data of others.

/** Requests that try to leave a file root, by path or by environment. */
const pathsOut: Load[] = [
  ...[
    '../canary',
    '/../canary',
    'sub/../../canary',
    'way-out',
    'way-out-of-all',
    '../base-beside/canary',
    '|../canary',
    '../canary?saltenv=base',
    '/etc/passwd',
    '%2e%2e/canary',
    '..\\canary',
    'sub\0/../../canary',
  ].map((name) => ({ path: name, saltenv: 'base' })),
  ...['..', '../..', '/', '', 'base/..', '__proto__', 'base-beside'].map((saltenv) => ({
    path: 'canary',
    saltenv,
  })),
];

/** Paths of pushed files outside the sender's folder, and values that are not file names. */
const pushesOut: WireValue[] = [
  ['..', '..', VICTIM, 'files', 'x'],
  ['../../../../pki/minions/newcomer'],
  ['/', 'etc', 'x'],
  ['..'],
  [''],
  [],
  'text',
  ['a\0b'],
  [7],
];

/** Patterns that would reveal the beginning of a secret. */
const pillarPatterns = [
  ['pillar', 'password:planted*'],
  ['pillar_pcre', 'password:planted.*'],
  ['compound', 'I@password:planted*'],
  ['compound', 'J@password:planted.*'],
] as const;

function isEmpty(value: WireValue): boolean {
  if (value === null || value === '') return true;
  return isWireMap(value) && Object.keys(value).length === 0;
}

/** Requests the pillar of a minion and decrypts it with the minion's own key. */
async function pillarOf({ door }: Site, id: string, load: Load): Promise<WireMap> {
  const nonce = freshNonce();
  const actor = id === HOSTILE ? hostile : victim;
  const reply = await door.ask(requestBy(actor, { cmd: '_pillar', ver: '2', ...load }, nonce));
  const pillar = openPillarOf(id, reply, nonce);
  if (!isWireMap(pillar)) throw new TypeError('no pillar');
  return pillar;
}

// These tests run serially, because each master has worker threads for RSA.
for (const wire of WIRES) {
  test.serial(
    `over ${wire}, a minion gets only its own pillar, whatever id and grains it claims`,
    async (t) => {
      const site = await startSite(t, wire);
      const grains = { id: VICTIM, role: 'database', os: 'Debian' };
      const lies: Load[] = [
        { grains },
        { grains, saltenv: '../..', pillarenv: '../..' },
        { grains, extra_minion_data: { id: VICTIM } },
        { grains, pub: pem('other_minion').publicPem, minion_id: VICTIM, master_id: VICTIM },
      ];
      for (const load of lies) {
        const own = await pillarOf(site, HOSTILE, load);
        t.deepEqual({ ...own }, { owner: HOSTILE });
      }
      const ext = { cmd_yaml: 'cat /etc/passwd', 'a b': 'x' };
      const named = { grains, ext, ext_pillar: [{ git: 'main ssh://x' }] };
      const { owner, _errors: errors, ...more } = await pillarOf(site, HOSTILE, named);
      t.deepEqual([owner, more], [HOSTILE, {}]);
      t.is(Array.isArray(errors) ? errors.length : 0, 1);
      t.regex(String(errors), /^ext_pillar cmd_yaml is not queried: only the minion names it/);
      // The `pillar=` of a minion's command line is merged over its own reply only.
      const override = { grains, pillar_override: { password: 'x' } };
      t.deepEqual(
        { ...(await pillarOf(site, HOSTILE, override)) },
        { owner: HOSTILE, password: 'x' },
      );
      t.is(
        unpackWire(await site.door.ask(requestBy(hostile, { cmd: '_pillar', id: VICTIM }))),
        'bad load',
      );
      const genuine = await pillarOf(site, VICTIM, { grains: { os: 'Debian' } });
      t.deepEqual({ ...genuine }, { owner: VICTIM, password: SECRET });
    },
  );

  test.serial(
    `over ${wire}, only its owner writes a mine, and a mine reveals no foreign pillar`,
    async (t) => {
      const site = await startSite(t, wire);
      await askAs(victim, site.door, { cmd: '_mine', data: { fun: 'kept' } });
      await site.door.ask(requestBy(victim, { cmd: '_pillar', ver: '2', grains: {} }));
      const changes = await site.changesBy(async () => {
        for (const cmd of ['_mine', '_mine_delete', '_mine_flush']) {
          const forged = requestBy(hostile, { cmd, id: VICTIM, fun: 'fun', data: { fun: 'lie' } });
          t.is(unpackWire(await site.door.ask(forged)), 'bad load');
          await askAs(hostile, site.door, {
            cmd,
            minion_id: VICTIM,
            tgt: VICTIM,
            fun: 'fun',
            data: { fun: 'lie' },
          });
        }
        for (const [tgtType, tgt] of pillarPatterns) {
          const query = { cmd: '_mine_get', tgt, tgt_type: tgtType, fun: 'fun' };
          t.true(isEmpty(await askAs(hostile, site.door, query)), tgt);
        }
      });
      t.deepEqual(
        changes.filter((name) => !name.startsWith(`mine-marks/${HOSTILE}`)),
        [],
      );
      const read = await askAs(hostile, site.door, { cmd: '_mine_get', tgt: VICTIM, fun: 'fun' });
      t.deepEqual({ ...Object(read) }, { [VICTIM]: 'kept' });
    },
  );

  test.serial(`over ${wire}, only files below the file roots can be read`, async (t) => {
    const site = await startSite(t, wire);
    for (const asked of pathsOut) {
      for (const cmd of ['_serve_file', '_file_hash', '_file_hash_and_stat', '_file_find']) {
        const answer = await askAs(hostile, site.door, { cmd, loc: 0, ...asked });
        const packed = packWire(answer);
        t.false(packed.includes(SECRET) || packed.includes('hsum'), `${cmd} ${asked.path}`);
      }
    }
    for (const cmd of ['_file_list', '_dir_list', '_symlink_list', '_file_list_emptydirs']) {
      for (const saltenv of ['base', '..', '../base-beside', '/']) {
        for (const prefix of ['', '..', '../', '/']) {
          const answer = await askAs(hostile, site.door, { cmd, saltenv, prefix });
          t.false(packWire(answer).includes('canary'), `${cmd} ${saltenv}`);
        }
      }
    }
    const served = { cmd: '_serve_file', path: 'published.txt', saltenv: 'base', loc: 0 };
    t.like(await askAs(hostile, site.door, served), { data: 'for everybody' });
  });

  test.serial(
    `over ${wire}, a pushed file stays in the sender's folder and is never read again`,
    async (t) => {
      const site = await startSite(t, wire, { config: { fileRecv: true } });
      const changes = await site.changesBy(async () => {
        for (const name of pushesOut) {
          await askAs(hostile, site.door, { cmd: '_file_recv', path: name, loc: 0, data: 'x' });
        }
      });
      t.deepEqual(
        changes.filter((name) => !name.startsWith('cache')),
        [],
        'nothing outside of the cache',
      );
      const own = path.join('cache', 'minions', HOSTILE, 'files');
      const pushed = await site.changesBy(() =>
        askAs(hostile, site.door, { cmd: '_file_recv', path: ['top.sls'], loc: 0, data: SECRET }),
      );
      t.true(pushed.includes(path.join(own, 'top.sls')));
      const all = [...changes, ...pushed].filter((name) => name !== 'cache');
      t.deepEqual(
        all.filter((name) => !own.startsWith(name) && !name.startsWith(own)),
        [],
        "nothing beside the sender's folder",
      );
      for (const saltenv of [path.join(site.operator.directory, own), `../../${own}`, 'files']) {
        const asked = { cmd: '_serve_file', path: 'top.sls', saltenv, loc: 0 };
        t.false(packWire(await askAs(hostile, site.door, asked)).includes(SECRET));
      }
    },
  );
}

const jidOfNobody = '20200102030405678901';

/** Publishes a job and returns its id. */
async function publish({ operator }: Site, tgt: string): Promise<string> {
  const job = { tgt, fun: 'test.ping', timeoutSeconds: 0.2, gatherJobTimeoutSeconds: 0.2 };
  for await (const update of operator.master.jobs.run(job)) {
    if (update.type === 'published') return update.jid;
  }
  throw new Error('nothing was published');
}

/** Sends a request as the hostile minion, and checks that it causes no event. */
async function silently(t: ExecutionContext, site: Site, load: Load): Promise<WireValue> {
  let value: WireValue = null;
  const events = await site.operator.eventsDuring(async () => {
    value = await askAs(hostile, site.door, load);
  });
  t.deepEqual(events, [], JSON.stringify(load.cmd));
  return value;
}

const returned = { cmd: '_return', fun: 'test.ping', fun_args: [], return: true, retcode: 0 };

const prototypes = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '__init__'];

const internals = [
  'publish',
  'runner',
  'wheel',
  'mk_token',
  '_auth',
  '_prep_auth_info',
  'run_func',
  '_send_pub',
  'masterapi',
];

const relayed = ['_syndic_return', '_handle_payload', 'syndic_cmd', 'pub_ret'];

/** Tags of other owners. `shapes` is the number of request forms that can name a tag. */
const foreignTags = [
  `salt/minion/${VICTIM}/start`,
  `salt/beacon/${VICTIM}/load`,
  `salt/job/${jidOfNobody}/ret/${VICTIM}`,
  `salt/job/${jidOfNobody}/new`,
  'salt/auth',
  'salt/key',
  'salt/run/x/new',
  'salt/wheel/x/new',
  'salt/presence/change',
  'salt/stats/x',
  'saltbridge/acl/denied',
  'cluster/peer',
  'key',
  'new_job',
  'any/tag',
  `salt/minion/${HOSTILE}/start\n\n`,
  `salt//minion/${HOSTILE}/start`,
  `SALT/minion/${HOSTILE}/start`,
];

function shapes(tag: string): Load[] {
  const cut = Math.max(1, tag.lastIndexOf('/'));
  const data = { id: VICTIM, minions: [VICTIM], jid: jidOfNobody };
  return [
    { tag, data },
    { events: [{ tag, data }] },
    { events: [{ tag: tag.slice(cut + 1) || 'x', data }], pretag: tag.slice(0, cut) },
  ];
}

// These tests run serially, because each master has worker threads for RSA.
for (const wire of WIRES) {
  test.serial(
    `over ${wire}, a return is accepted once, and only from a minion that the job targets`,
    async (t) => {
      const site = await startSite(t, wire);
      const others = await publish(site, VICTIM);
      const own = await publish(site, HOSTILE);
      const changes = await site.changesBy(async () => {
        for (const jid of [others, jidOfNobody, '../../x', `${own}\n`, `${own}/`, '\0', '0']) {
          t.is(await silently(t, site, { ...returned, jid }), false, jid);
        }
        for (const jid of [7, [], {}, null, '1'.repeat(65)]) {
          t.is(await silently(t, site, { ...returned, jid }), null);
        }
        t.is(await silently(t, site, { ...returned, jid: own, fun: 'cmd.run' }), false);
      });
      t.deepEqual(changes, []);
      const forged = { jid: own, user: 'root', cmd: '_return', tgt: '*', id: HOSTILE };
      const events = await site.operator.eventsDuring(() =>
        askAs(hostile, site.door, { ...returned, ...forged }),
      );
      t.deepEqual(
        events.map(({ tag, data }) => [tag, data.id, data.cmd]),
        [[`salt/job/${own}/ret/${HOSTILE}`, HOSTILE, '_return']],
      );
      await silently(t, site, { ...returned, jid: own, return: 'another' });
      t.is(
        (await site.operator.master.jobs.show(own)).returns.find(({ minion }) => minion === HOSTILE)
          ?.return,
        true,
      );
    },
  );

  test.serial(
    `over ${wire}, a minion cannot fire a tag of others in any request form`,
    async (t) => {
      const site = await startSite(t, wire);
      const changes = await site.changesBy(async () => {
        for (const tag of foreignTags) {
          for (const shape of shapes(tag)) {
            await silently(t, site, { cmd: '_minion_event', ...shape });
          }
        }
      });
      t.deepEqual(changes, []);
      const tag = `salt/beacon/${HOSTILE}/load`;
      for (const shape of shapes(tag)) {
        const events = await site.operator.eventsDuring(() =>
          askAs(hostile, site.door, { cmd: '_minion_event', ...shape }),
        );
        t.deepEqual(
          events.map((event) => [event.tag, event.data.id]),
          [[tag, HOSTILE]],
        );
      }
    },
  );

  test.serial(
    `over ${wire}, a minion cannot start anything on others, on the master, or for a relay`,
    async (t) => {
      const site = await startSite(t, wire);
      const load = { tgt: '*', fun: 'test.ping', arg: [], ret: '', jid: jidOfNobody, match: 'x' };
      const changes = await site.changesBy(async () => {
        for (const cmd of ['minion_pub', 'minion_publish', 'minion_runner']) {
          const answer = await silently(t, site, { cmd, ...load });
          t.true(answer === false || isEmpty(answer), cmd);
        }
        // The reply is the same as Salt's. The test checks that the key is not changed.
        await silently(t, site, { cmd: 'revoke_auth', id: HOSTILE });
        for (const cmd of [...prototypes, ...internals, ...relayed]) {
          const forged = { ...load, return: { [VICTIM]: { return: SECRET } }, load: { fun: 'x' } };
          const answer = await silently(t, site, { cmd, ...forged });
          t.true(answer === false || isEmpty(answer), cmd);
        }
      });
      t.deepEqual(changes, []);
      const peer = { peer: { [HOSTILE]: ['test.ping'] } };
      const granted = await startSite(t, wire, { config: peer });
      const answer = await askAs(hostile, granted.door, {
        cmd: 'minion_pub',
        ...load,
        tgt: VICTIM,
      });
      t.true(isWireMap(answer) && typeof answer.jid === 'string', 'what is granted is started');
    },
  );
}
