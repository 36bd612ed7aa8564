/**
 * Starts a master with reactions, the vectors' minion that emits events, and a web tier that
 * executes them.
 */

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

/** Schema of the data that Jenkins may send. */
export const schema: WireMap = {
  type: 'object',
  required: ['env'],
  properties: { env: { type: 'string' }, count: { type: 'integer' } },
  additionalProperties: true,
};

/** The reaction of the documented example. */
export const puppet: Reaction = reaction('puppet', {
  on: tag,
  do: { run: { fun: 'test.kwarg', target: 'web*', kwargs: { env: { from: 'data.env' } } } },
});

/** The rule for the reaction of the example. */
export const grant: PolicyRule = allow('puppet runs', {
  subject: { service: 'reaction:puppet' },
  action: 'publish',
  resource: { fun: 'test.kwarg', within: 'web*' },
});

export function acl(...rules: readonly PolicyRule[]): MasterOptions['acl'] {
  return { signals: [{ name: 'jenkins', tag, minions: '*', schema }], rules };
}

export interface Stage extends VectorMaster {
  /** Emits an event as the vectors' minion, in a new request. */
  emit(data: unknown, asked?: string): Promise<void>;
  /** Returns the runs when `count` of them have ended. */
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
    // Recorded requests and those of the embedded minion have different times.
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

/** Starts the web tier. Returns the calls of `test.kwarg` on its minion. */
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

/** Returns the runs of reactions when `count` of them have ended. */
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
