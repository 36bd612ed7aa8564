/** Formats jobs as Salt's runners do [salt/utils/jid.py, salt/runners/jobs.py]. */

import { type JobReturn, type Jobs, returnerOf } from '#master';
import type { WireMap } from '#minion-protocol';

type JobRecord = NonNullable<Awaited<ReturnType<Jobs['cache']['record']>>>;

/** Result for a job that is not stored. */
const unknownJob: WireMap = { Error: 'Cannot contact returner or no job with this jid' };

/** Returns a job in the format of `list_jobs`. */
export function describeJob(record: JobRecord): WireMap {
  const { fun, arg, tgt, tgtType, user, metadata, isNarrowed } = record;
  return {
    Function: typeof fun === 'string' ? fun : [...fun],
    Arguments: [...arg],
    Target: typeof tgt === 'string' ? tgt : [...tgt],
    'Target-type': tgtType,
    User: user,
    ...(isNarrowed === true ? { Narrowed: true } : {}),
    ...(metadata === undefined ? {} : { Metadata: metadata }),
    StartTime: startTime(record.jid),
  };
}

/** Returns a job in the format of `list_job` and `print_job`. */
export function describeJobInFull(
  jid: string,
  record: JobRecord | undefined,
  returns: readonly JobReturn[],
): WireMap {
  const { StartTime: _time, ...job } = record === undefined ? unknownJob : describeJob(record);
  const minions = record === undefined ? {} : { Minions: [...record.minions].sort() };
  const { missing = [] } = record ?? {};
  const unaddressed = missing.length === 0 ? {} : { Missing: [...missing].sort() };
  const result: WireMap = Object.create(null);
  for (const one of returns) result[returnerOf(one)] = describeReturn(one);
  return { ...job, ...minions, ...unaddressed, StartTime: startTime(jid), Result: result };
}

/**
 * Returns the start time that a jid contains, formatted like `2026, Nov 21 15:48:26.914988`. Empty
 * if the jid contains no time.
 */
export function startTime(jid: string): string {
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{6})/.exec(jid);
  if (parts === null) return '';
  const [, year, month, day, hour, minute, second, fraction] = parts;
  return `${year}, ${months[Number(month) - 1] ?? ''} ${day} ${hour}:${minute}:${second}.${fraction}`;
}

const months: readonly string[] = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

function describeReturn({ return: value, retcode, success, out }: JobReturn): WireMap {
  return {
    return: value,
    retcode,
    success,
    ...(out === undefined ? {} : { out }),
  };
}
