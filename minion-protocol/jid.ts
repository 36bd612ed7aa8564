/**
 * Job ids [WIRE 11.3; salt/utils/jid.py]: `YYYYMMDDhhmmssffffff` in UTC, optionally with `_suffix`.
 */

const jidForm = /^\d{20}(_.+)?$/s;
const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})/;
const microsecondsPerMillisecond = 1000;

/**
 * Returns a function that creates unique job ids. If the clock stands still or goes back, the id
 * contains the next microsecond after the previous id.
 * @param uniqueSuffix - text that is appended after `_`, as Salt does with `unique_jid`
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

/**
 * Returns the creation time of a job, to the millisecond, or `undefined` if the text contains no
 * valid time.
 */
export function jidTime(jid: string): Date | undefined {
  const match = isJid(jid) ? parts.exec(jid) : null;
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second, millisecond] = match;
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.${millisecond}Z`;
  const time = new Date(iso);
  // `Date` converts 30 February to a day in March, so the text is compared.
  return Number.isNaN(time.getTime()) || time.toISOString() !== iso ? undefined : time;
}
