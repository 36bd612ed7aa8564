/** Passes the events of the master itself to reactions. */

import { type Events, jidOf, MasterError } from '#master';
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
 * Hands on what the master fires until the signal comes. The bus only tells: what it has told and
 * nobody has kept yet is lost with the process.
 */
export async function followOwnEvents(parts: OwnEventDeps): Promise<void> {
  for (;;) {
    try {
      return await follow(parts);
    } catch (error) {
      if (!(error instanceof MasterError && error.code === 'ERR_READER_DROPPED')) throw error;
      parts.reports.dropped('*', 'too-many-events', {});
    }
  }
}

/** What no event of the master's own has. */
const nobodys = {
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
  for await (const { tag, data } of events) {
    try {
      await intake.take({ ...nobodys, tag, body: data, jid: jidOf(tag, data) });
    } catch (error) {
      // A disk that is full has room again some day.
      if (!(error instanceof StoreError)) throw error;
      reports.dropped('*', 'not-kept', { tag, code: error.code });
    }
  }
}
