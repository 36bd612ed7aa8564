/** An accepted minion tries to read and write what is not its own. */
import path from 'node:path';
import test from 'ava';
import {
  isWireMap,
  packWire,
  unpackWire,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { freshNonce } from '../helpers/vector-requests.ts';
import { pem } from '../helpers/vectors.ts';
import { WIRES } from './doors.ts';
import {
  askAs,
  HOSTILE,
  hostile,
  type Load,
  openPillarOf,
  requestBy,
  SECRET,
  type Site,
  startSite,
  VICTIM,
  victim,
} from './site.ts';

/** Ways out of a root, by path and by environment. */
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

/** Where a pushed file would lie outside of the sender's folder, and that it is no file name. */
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

/** What would tell whether a secret begins so. */
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

/** The pillar that a minion is given, opened with its own key. */
async function pillarOf({ door }: Site, id: string, load: Load): Promise<WireMap> {
  const nonce = freshNonce();
  const actor = id === HOSTILE ? hostile : victim;
  const reply = await door.ask(requestBy(actor, { cmd: '_pillar', ver: '2', ...load }, nonce));
  const pillar = openPillarOf(id, reply, nonce);
  if (!isWireMap(pillar)) throw new TypeError('no pillar');
  return pillar;
}

// One after the other, because each master here has worker threads for RSA.
for (const wire of WIRES) {
  test.serial(
    `over ${wire}, a pillar is the asker's own, whatever it says of itself`,
    async (t) => {
      const site = await startSite(t, wire);
      const grains = { id: VICTIM, role: 'database', os: 'Debian' };
      const lies: Load[] = [
        { grains },
        { grains, saltenv: '../..', pillarenv: '../..' },
        { grains, extra_minion_data: { id: VICTIM } },
        { grains, ext: { cmd_yaml: 'cat /etc/passwd' }, ext_pillar: [{ git: 'main ssh://x' }] },
        { grains, pub: pem('other_minion').publicPem, minion_id: VICTIM, master_id: VICTIM },
      ];
      for (const load of lies) {
        const own = await pillarOf(site, HOSTILE, load);
        t.deepEqual({ ...own }, { owner: HOSTILE });
      }
      // What is on a minion's own command line lies over its own answer, and over nothing else.
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
    `over ${wire}, a mine is written by its owner, and says nothing of foreign pillars`,
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

  test.serial(`over ${wire}, no file is read but those below the roots`, async (t) => {
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
