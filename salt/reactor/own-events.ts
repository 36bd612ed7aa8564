/** Passes the master's own events to reactions. */

import { type Events, followAgain, jidOf } from '#master';
import { StoreError } from '#store';
import type { ReactionIntake } from './reaction-intake.ts';
import type { ReactionReports } from './reaction-reports.ts';

interface OwnEventDeps {
  readonly bus: Events['bus'];
  readonly intake: ReactionIntake;
  readonly reports: ReactionReports;
  readonly closing: AbortSignal;
}

/**
 * Passes the master's events to reactions until the signal is aborted. The event bus does not store
 * events. If the process stops before a run is queued, the run is lost.
 */
export function followOwnEvents(parts: OwnEventDeps): Promise<void> {
  return followAgain(
    () => follow(parts),
    () => parts.reports.dropped('*', 'too-many-events', {}),
  );
}

/** Fields that only events of minions have. They are `undefined` in the master's own events. */
const withoutSender = {
  sender: undefined,
  data: undefined,
  rule: undefined,
  request: undefined,
} as const;

async function follow({ bus, intake, reports, closing }: OwnEventDeps): Promise<void> {
  const events = bus.subscribe({
    accepts: (tag) => intake.isWanted(tag),
    isOwnOnly: true,
    signal: closing,
  });
  for await (const event of events) {
    const { tag, data } = event;
    const isOfReaction = bus.isOfReaction(event);
    const owner = bus.ownerOf(event);
    try {
      const jid = jidOf(tag, data);
      await intake.take({ ...withoutSender, tag, body: data, jid, owner, isOfReaction });
    } catch (error) {
      // The write may succeed later, for example when a full disk has space again.
      if (!(error instanceof StoreError)) throw error;
      reports.dropped('*', 'not-kept', { tag, code: error.code });
    }
  }
}
