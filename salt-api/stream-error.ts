/** The event with which a stream ends because of an error. */
import type { MasterEvent } from '#master';
import { formatEventStamp } from '#minion-protocol';
import { LimitExceeded } from '#runtime';
import { toErrorAnswer } from './error-answer.ts';

/** Returns an event that contains the code of an error, and its message if it may be shown. */
export function streamError(error: unknown, now: number = Date.now()): MasterEvent {
  const answer = toErrorAnswer(error);
  // The event must not reveal why a token or a right was rejected.
  const code = answer.status === 401 ? 'ERR_HTTP_SESSION' : answer.code;
  const message = error instanceof LimitExceeded ? error.message : answer.message;
  const about = message === undefined ? {} : { message };
  const _stamp = formatEventStamp(new Date(now));
  return { tag: 'saltbridge/events/error', data: { error: code, ...about, _stamp } };
}
