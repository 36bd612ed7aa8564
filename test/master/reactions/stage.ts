/** A master with reactions, the minion of the vectors that emits, and a web tier that works. */

import type { ExecutionContext } from 'ava';
import { allow, type PolicyRule } from '#acl';
import type { Reaction } from '#config';
import { type MasterOptions, reaction } from '#config';
import type { MasterApi, ReactionRun } from '#master';
import { createMinion, type Minion, type MinionFunction, type WireMap } from '#minion-protocol';
import { otherKey } from '../../helpers/connected-minion.ts';
import { within } from '../../helpers/deadline.ts';
import {
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys, pem } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');

export const tag = 'infra/puppet/requested';

/** What Jenkins may say with it. */
export const schema: WireMap = {
  type: 'object',
  required: ['env'],
  properties: { env: { type: 'string' }, count: { type: 'integer' } },
  additionalProperties: true,
};

/** The reaction of the example. */
export const puppet: Reaction = reaction('puppet', {
  on: tag,
  do: { run: { fun: 'test.kwarg', target: 'web*', kwargs: { env: { from: 'data.env' } } } },
});

/** What the reaction of the example may. */
export const grant: PolicyRule = allow('puppet runs', {
  subject: { service: 'reaction:puppet' },
  action: 'publish',
  resource: { fun: 'test.kwarg', within: 'web*' },
});

export function acl(...rules: readonly PolicyRule[]): MasterOptions['acl'] {
  return { signals: [{ name: 'jenkins', tag, minions: '*', schema }], rules };
}

export interface Stage extends VectorMaster {
  /** Emits an event as the vectors' minion, by a request of its own. */
  emit(data: unknown, asked?: string): Promise<void>;
  /** The runs, when so many are over. */
  ended(count: number): Promise<readonly ReactionRun[]>;
}

export async function startStage(
  t: ExecutionContext,
  config: Partial<MasterOptions>,
  options: Omit<VectorMasterOptions, 'config'> = {},
): Promise<Stage> {
  const stage = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      otherKey('web1'),
    ],
    ...options,
    // Recorded requests and those of the embedded minion are of different times.
    config: { requestServerTtl: 0, acl: acl(grant), reactions: [puppet], ...config },
  });
  return {
    ...stage,
    emit: async (data, asked = tag) => {
      const nonce = freshNonce();
      const load = { tag: asked, data: data as WireMap, nonce };
      t.is(openReply(startEvent, await stage.ask(altered(startEvent, { load })), nonce), null);
    },
    ended: (count) => endedRuns(stage.master, count),
  };
}

/** Calls of `test.kwarg` on a minion of the web tier. */
export async function startWeb(
  t: ExecutionContext,
  { dial }: Pick<VectorMaster, 'dial'>,
  functions: Readonly<Record<string, MinionFunction>> = {},
): Promise<{ readonly minion: Minion; readonly calls: WireMap[] }> {
  const calls: WireMap[] = [];
  const minion = createMinion({
    id: 'web1',
    transport: dial('web1', '192.0.2.1'),
    keys: { ...pem('other_minion'), masterPem: undefined, trustMaster: async () => {} },
    functions: {
      'test.kwarg': ({ kwargs }) => {
        calls.push({ ...kwargs });
        return true;
      },
      ...functions,
    },
  });
  t.teardown(() => minion.stop());
  await minion.start();
  return { minion, calls };
}

/** The runs of reactions, when so many are over. */
export async function endedRuns(
  master: Pick<MasterApi, 'reactions'>,
  count: number,
  ms?: number,
): Promise<readonly ReactionRun[]> {
  const what = `${count} runs of reactions to end`;
  const look = async (): Promise<readonly ReactionRun[]> => {
    for (;;) {
      const runs = await master.reactions.runs();
      if (runs.filter(({ endedAt }) => endedAt !== undefined).length >= count) return runs;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return within(what, look(), ms);
}
