import test, { type ExecutionContext } from 'ava';
import { isWireMap, type WireValue } from '../../minion-protocol/index.ts';
import { WIRES } from './doors.ts';
import {
  askAs,
  HOSTILE,
  hostile,
  type Load,
  SECRET,
  type Site,
  startSite,
  VICTIM,
} from './site.ts';

const jidOfNobody = '20200102030405678901';

/** Publishes a job, and gives its id. */
async function publish({ operator }: Site, tgt: string): Promise<string> {
  const job = { tgt, fun: 'test.ping', timeout: 0.2, gatherJobTimeout: 0.2 };
  for await (const update of operator.master.jobs.run(job)) {
    if (update.type === 'published') return update.jid;
  }
  throw new Error('nothing was published');
}

/** Asks as the hostile minion, and expects no event by it. */
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

/** Tags that belong to others; `shapes` says in how many ways they can be asked for. */
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

function isEmpty(value: WireValue): boolean {
  if (value === null || value === '') return true;
  return isWireMap(value) && Object.keys(value).length === 0;
}

// One after the other, because each master here has worker threads for RSA.
for (const wire of WIRES) {
  test.serial(
    `over ${wire}, a return is taken from whom the job was for, once, as it was asked`,
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

  test.serial(`over ${wire}, no tag of others is fired in any shape`, async (t) => {
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
  });

  test.serial(
    `over ${wire}, nothing is started on others, on the master, or for a relay`,
    async (t) => {
      const site = await startSite(t, wire);
      const load = { tgt: '*', fun: 'test.ping', arg: [], ret: '', jid: jidOfNobody, match: 'x' };
      const changes = await site.changesBy(async () => {
        for (const cmd of ['minion_pub', 'minion_publish', 'minion_runner']) {
          const answer = await silently(t, site, { cmd, ...load });
          t.true(answer === false || isEmpty(answer), cmd);
        }
        // Answered in Salt's way; what counts is that the key stays.
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
