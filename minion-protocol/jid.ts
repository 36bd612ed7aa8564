/** Job ids [WIRE 11.3; salt/utils/jid.py]: `YYYYMMDDhhmmssffffff`, UTC, perhaps `_suffix`. */

const jidForm = /^\d{20}(_.+)?$/s;
const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})/;
const microsecondsPerMillisecond = 1000;

/**
 * A source of job ids that never gives one twice: where the clock stands still or goes back, the
 * next microsecond is taken.
 * @param uniqueSuffix - appended after `_`, as Salt does with `unique_jid`
 */
export function createJidSource(now: () => number = Date.now, uniqueSuffix?: string): () => string {
  const suffix = uniqueSuffix === undefined ? '' : `_${uniqueSuffix}`;
  let last = 0;
  return () => {
    last = Math.max(last + 1, now() * microsecondsPerMillisecond);
    return toDigits(last) + suffix;
  };
}

function toDigits(microseconds: number): string {
  const date = new Date(Math.floor(microseconds / microsecondsPerMillisecond));
  const fraction = String(microseconds % microsecondsPerMillisecond).padStart(3, '0');
  return date.toISOString().replace(/\D/g, '') + fraction;
}

/** Whether `text` has the form of a job id. */
export function isJid(text: unknown): text is string {
  return typeof text === 'string' && jidForm.test(text);
}

/** When the job was made, to the millisecond; `undefined` when the text tells no time. */
export function jidTime(jid: string): Date | undefined {
  const match = isJid(jid) ? parts.exec(jid) : null;
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second, millisecond] = match;
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.${millisecond}Z`;
  const time = new Date(iso);
  // Date takes 30 February for a day in March.
  return Number.isNaN(time.getTime()) || time.toISOString() !== iso ? undefined : time;
}
