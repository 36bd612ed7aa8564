/** The `reactions` interface of the master. */

import { type MasterApi, MasterError, type ReactionInfo, type ReactionRun } from '#master';
import type { CompiledReaction } from './compile-reactions.ts';
import type { EndedRun, OpenRun, ReactionQueue } from './reaction-queue.ts';

interface ReactionsApiDeps {
  readonly reactions: () => readonly CompiledReaction[];
  readonly queue: ReactionQueue;
}

export function createReactionsApi({ reactions, queue }: ReactionsApiDeps): MasterApi['reactions'] {
  const describe = ({ reaction }: CompiledReaction): ReactionInfo => {
    const open = queue.open.filter((run) => run.reaction === reaction.name);
    const sent = open.filter(({ isSent }) => isSent).length;
    return { ...reaction, waiting: open.length - sent, running: sent };
  };
  return {
    list: async () => reactions().map(describe),
    show: async (name) => {
      const found = reactions().find(({ reaction }) => reaction.name === name);
      if (found === undefined) {
        throw new MasterError('ERR_REACTION_UNKNOWN', 'unknown reaction');
      }
      return describe(found);
    },
    runs: async ({ reaction, limit = 100 } = {}) => {
      const isMeant = (run: OpenRun | EndedRun): boolean =>
        reaction === undefined || run.reaction === reaction;
      const open = queue.open.filter(isMeant);
      const runs: ReactionRun[] = [...open].reverse().slice(0, limit).map(toRun);
      if (runs.length >= limit) return runs;
      for await (const run of queue.ended()) {
        if (isMeant(run)) runs.push(toRun(run));
        if (runs.length >= limit) break;
      }
      return runs;
    },
  };
}

function toRun(run: OpenRun | EndedRun): ReactionRun {
  const { call, depth: _depth, ...rest } = run;
  const common = { jid: rest.jid, reaction: rest.reaction, tag: rest.tag, queuedAt: rest.queuedAt };
  const sender = rest.sender === undefined ? {} : { sender: rest.sender };
  const described = { ...common, ...sender, kind: call.kind, fun: call.fun };
  if ('isSent' in rest) return { ...described, state: rest.isSent ? 'running' : 'waiting' };
  const reason = rest.reason === undefined ? {} : { reason: rest.reason };
  return { ...described, state: rest.outcome, endedAt: rest.endedAt, ...reason };
}
