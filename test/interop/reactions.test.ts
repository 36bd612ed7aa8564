/** Reactions to signals of real minions, and jobs on these minions, with all versions at once. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { reaction } from '#config';
import type { ReactionRun } from '#master';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { steps } from './programs.ts';

const step = steps('SALT_MINION');
const tag = 'infra/puppet/requested';

const reactorFile = `back:
  local.test.kwarg:
    - tgt: {{ data.id }}
    - args:
      - env: {{ data.data.env }}
      - tag: {{ tag }}
`;

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;

test.before(async () => {
  if (process.env.SALT_MINION === undefined) return;
  const schema = {
    type: 'object',
    required: ['env'],
    properties: { env: { type: 'string' } },
    additionalProperties: false,
  };
  const made = await MasterHome.create();
  const file = path.join(made.directory, 'react.sls');
  writeFileSync(file, reactorFile);
  home = made.with({
    reactor: [{ tag: 'infra/reactor/*', sls: [file] }],
    acl: {
      signals: [
        { tag, minions: 'salt-*', schema },
        { tag: 'infra/reactor/asked', minions: 'salt-*', schema },
      ],
      rules: [
        allow('back to the sender', {
          subject: { service: 'reaction:back' },
          action: 'publish',
          resource: { fun: 'test.kwarg', within: 'salt-*' },
        }),
        allow('by the file', {
          subject: { service: `reaction:${file}` },
          action: 'publish',
          resource: { fun: 'test.kwarg', within: 'salt-*' },
        }),
      ],
    },
    reactions: [
      reaction('back', {
        on: tag,
        do: {
          run: {
            fun: 'test.kwarg',
            target: { minion: 'sender' },
            kwargs: { env: { from: 'data.env' } },
          },
        },
        maxConcurrent: 5,
      }),
    ],
  });
  fleet = await Fleet.create(home.ports);
  master = await home.startHere();
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

async function send(asked: string, data: unknown): Promise<void> {
  for (const minion of fleet.minions) {
    await minion.saltCall('event.send', asked, JSON.stringify(data));
  }
}

async function runs(): Promise<readonly ReactionRun[]> {
  return master.api.reactions.runs();
}

/** Checks that the run for each minion's tag succeeded only on that minion, with this return. */
async function cameBack(t: ExecutionContext, asked: string, returned: object): Promise<void> {
  const ofTag = async (): Promise<readonly ReactionRun[]> =>
    (await runs()).filter((run) => run.tag === asked);
  await eventually('every run to end', async () => {
    const ended = (await ofTag()).filter(({ endedAt }) => endedAt !== undefined);
    return ended.length === fleet.ids.length;
  });
  for (const { jid, state, sender, reason } of await ofTag()) {
    t.is(state, 'succeeded', reason);
    const { returns } = await master.api.jobs.show(jid);
    t.deepEqual(
      returns.map(({ minion }) => minion),
      [sender],
    );
    t.like(returns[0]?.return, returned);
  }
  t.deepEqual((await ofTag()).map(({ sender }) => sender).sort(), fleet.ids);
}

step('a permitted request of a minion is executed with its unchanged text', async (t) => {
  const events = new EventLog(await master.api.events.subscribe());
  await fleet.enrol(master.api, events);
  await send('infra/other', { env: 'a' });
  await send(tag, { env: 'a', more: 1 });
  t.deepEqual(await runs(), []);
  const env = 'noop=true, [1, {{ grains.id }}]';
  await send(tag, { env });
  await cameBack(t, tag, { env });
});

step("Salt's reactor file answers each minion with its own text", async (t) => {
  const asked = 'infra/reactor/asked';
  const env = "a: b, '*'";
  await send(asked, { env });
  await cameBack(t, asked, { env, tag: asked });
});
