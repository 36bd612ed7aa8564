/** Events that the master fires itself, for the reactions that wait for them. */
import type { WireMap } from '../../minion-protocol/index.ts';
import { StoreError } from '../../store/index.ts';
import { MasterError } from '../errors.ts';
import type { EventBus } from '../events/bus.ts';
import type { ReactionIntake } from './intake.ts';
import type { ReactionReports } from './reports.ts';

/** What {@link followOwnEvents} works with. */
export interface OwnEventParts {
  readonly bus: EventBus;
  readonly intake: ReactionIntake;
  readonly reports: ReactionReports;
  readonly closing: AbortSignal;
}

/**
 * Hands on what the master fires until the signal comes. The bus only tells: what it has told and
 * nobody has kept yet is lost with the process.
 */
export async function followOwnEvents(parts: OwnEventParts): Promise<void> {
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

async function follow({ bus, intake, reports, closing }: OwnEventParts): Promise<void> {
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

/** The job that an event tells of: by its data, or by its tag. */
export function jidOf(tag: string, data: WireMap): string | undefined {
  if (typeof data.jid === 'string') return data.jid;
  return /^salt\/(?:job|run|wheel)\/(\d{20}(?:_\w{1,64})?)\//.exec(tag)?.[1];
}
