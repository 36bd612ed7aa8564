import { fileURLToPath } from 'node:url';
import type { Master } from '#master';
import type { Minion } from '#minion-protocol';
import { type ControlPlane, startControlPlane } from '../control-plane.ts';
import { EmbeddedMinions } from '../embedded-minions.ts';
import { type Example, eventually, program, type Step } from '../example.ts';

const sources = fileURLToPath(new URL('../../examples/jenkins', import.meta.url));
const tag = 'infra/puppet/requested';

/** A policy for a site where Jenkins may request exactly one action. */
export const jenkins: Example = {
  description: 'a policy: Jenkins may only trigger runs of Puppet on the web tier',
  needs: () => [program('openssl', 'openssl')],
  run: async (step) => {
    const minions = new EmbeddedMinions();
    const plane = await startControlPlane({ sources, service: 'site', users: [] });
    try {
      await runSteps(step, plane, minions);
    } finally {
      await minions.close();
      await plane.close();
    }
  },
};

async function runSteps(step: Step, plane: ControlPlane, minions: EmbeddedMinions): Promise<void> {
  const { master } = plane.server;
  const fleet = new Map<string, Minion>();
  /** Runs of the script in order, in the form `<minion> <environment>`. */
  const runs: string[] = [];
  const fire = async (id: string, data: { readonly env: string }): Promise<void> => {
    await fleet.get(id)?.fire(tag, data);
  };
  await step('accept the keys of jenkins-1, web1, web2 and db1', async () => {
    for (const id of ['jenkins-1', 'web1', 'web2', 'db1']) {
      const { minion, connected } = await minions.start(plane, id, {
        'puppet.run': ({ kwargs: { environment } }) => {
          runs.push(`${id} ${String(environment)}`);
          return { exitcode: 0 };
        },
      });
      await master.keys.accept({ match: id });
      await connected;
      fleet.set(id, minion);
    }
  });
  await step(
    `Jenkins emits ${tag} for "test", and Puppet runs on the web tier`,
    async () => {
      await fire('jenkins-1', { env: 'test' });
      await ended(master, 1);
      return runs.toSorted();
    },
    (all) => all.join() === 'web1 test,web2 test',
  );
  await step(
    'within a minute, Puppet does not run again for the same environment, but for another one',
    async () => {
      await fire('jenkins-1', { env: 'test' });
      await fire('jenkins-1', { env: 'live' });
      await ended(master, 2);
      return runs.slice(2).toSorted();
    },
    (all) => all.join() === 'web1 live,web2 live',
  );
  await step(
    'an environment that the schema does not list is denied, and an event of another minion',
    async () => {
      await fire('jenkins-1', { env: 'prod' });
      await fire('web1', { env: 'test' });
      return eventually('the denials', async () => {
        const denials = await master.events.denials();
        return denials.length < 2 ? undefined : denials.map((it) => `${it.minion}: ${it.reason}`);
      });
    },
    (denials) =>
      denials.length === 2 &&
      denials.some((it) => /^jenkins-1: .*data/.test(it)) &&
      runs.length === 4,
  );
  await step(
    'the reaction may only run Puppet; the policy names the rule',
    async () => {
      const mayRun = async (fun: string): Promise<string> => {
        const { decision } = await master.acl.explain({
          subject: { kind: 'service', name: 'reaction:puppet' },
          action: 'publish',
          resource: fun,
          target: { tgt: 'web*' },
        });
        return `${fun}: ${decision.effect} (${decision.rule})`;
      };
      return [await mayRun('puppet.run'), await mayRun('cmd.run')];
    },
    (answers) =>
      answers.join() === 'puppet.run: allow (puppet on the web tier),cmd.run: deny (default-deny)',
  );
  await step(
    'the master has stored the runs, with the minion that triggered them',
    async () =>
      (await master.reactions.runs()).map(({ reaction, sender, state }) =>
        [reaction, sender, state].join(' '),
      ),
    (kept) => kept.length === 2 && kept.every((it) => it === 'puppet jenkins-1 succeeded'),
  );
}

/** Waits until a number of runs of the reaction have ended. */
async function ended(master: Master, count: number): Promise<void> {
  await eventually(`the end of ${count} runs`, async () => {
    const runs = await master.reactions.runs();
    return runs.filter(({ endedAt }) => endedAt !== undefined).length === count || undefined;
  });
}
