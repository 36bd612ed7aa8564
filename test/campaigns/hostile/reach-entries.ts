/**
 * Entries of the matrix for a user whose rules permit only names that begin with `web`. Each case
 * tries all lists of names that contain the name of the honest minion.
 */

import { send } from '../http-fuzz.ts';
import type { Entry, Outcome } from './entry.ts';
import { withField } from './schemas.ts';
import { addresses, type HostileSite, limitedNames } from './site.ts';
import { nameLists, textOf } from './values.ts';

const families: readonly string[] = ['name lists'];
const maxBytes = 10_000;

/** Functions that return all minions or the configuration, whatever their arguments are. */
const withoutNames: ReadonlySet<string> = new Set(['config.values', 'key.list', 'key.list_all']);

/**
 * Returns the entries.
 * @throws Error if the user may not name a minion that the rules permit
 */
export async function reachEntries(site: HostileSite): Promise<readonly Entry[]> {
  const { text } = await call(site, { client: 'wheel', fun: 'key.print', match: 'web1' });
  if (!text.includes('"web1"')) throw new Error(`the limited user may not name web1: ${text}`);
  const named = (table: { docs(): Promise<object> }): Promise<readonly string[]> =>
    table.docs().then((found) => Object.keys(found).filter((fun) => !withoutNames.has(fun)));
  const runners = await named(site.master.runners);
  const wheel = await named(site.master.wheel);
  const keys = wheel.filter((fun) => fun.startsWith('key.'));
  return [
    ...keys.map((fun) =>
      entryOf(site, `wheel ${fun}`, [`wheel ${fun} arg.0`, `wheel ${fun} kwarg.match`]),
    ),
    entryOf(site, 'wheel functions', fieldsOf('wheel', wheel)),
    entryOf(site, 'runners', fieldsOf('runner', runners)),
    entryOf(site, 'jobs', ['local_async test.ping tgt', 'local_async test.ping,sys.doc tgt']),
  ];
}

/** Returns fields that consist of a client, a function and the place of the value. */
function fieldsOf(client: string, functions: readonly string[]): readonly string[] {
  const places = ['arg.0', ...limitedNames.map((it) => `kwarg.${it}`)];
  return functions.flatMap((fun) => places.map((place) => `${client} ${fun} ${place}`));
}

function entryOf(site: HostileSite, name: string, fields: readonly string[]): Entry {
  return {
    name: `reach of ${name}`,
    fields,
    families,
    maxBytes,
    prepare: (field) => async () => {
      const [client = '', fun = '', place = ''] = field.split(' ');
      const kinds =
        client === 'local_async' ? [{ tgt_type: 'list' }, { tgt_type: 'compound' }] : [{}];
      const outcomes: Outcome[] = [];
      for (const value of nameLists(site.foreign.minion)) {
        for (const kind of kinds) {
          const body = withField({ client, fun, ...kind }, place, value);
          outcomes.push(outcomeOf(textOf(value), await call(site, body)));
        }
      }
      const listed = await site.master.keys.list();
      const isAccepted = listed.some(({ id, state }) => id === 'honest' && state === 'accepted');
      if (!isAccepted) outcomes.push({ answer: 'reach', defect: 'the key of honest has changed' });
      return outcomes.find((it) => it.defect !== undefined) ?? { answer: 'within reach' };
    },
  };
}

interface Called {
  readonly status: number | undefined;
  readonly text: string;
}

async function call({ port, sessions }: HostileSite, body: unknown): Promise<Called> {
  const headers = {
    ...{ 'content-type': 'application/json', accept: 'application/json' },
    'x-auth-token': sessions.limited ?? '',
  };
  const request = { method: 'POST', path: '/', headers, localAddress: addresses.hostile };
  const answer = await send(port, request, Buffer.from(JSON.stringify(body)));
  return { status: answer?.status, text: answer?.text ?? '' };
}

/** Judges by the answer whether the call has reached the honest minion. */
function outcomeOf(names: string, { status, text }: Called): Outcome {
  // Names are keys of maps in results, and items in the list of the minions of a job.
  const isReached = /"honest"\s*:|"minions(?:_\w+)?"\s*:\s*\[[^\]]*"honest"/.test(text);
  return {
    answer: `reach ${status}`,
    ...(isReached ? { defect: `${names} reached the honest minion: ${text.slice(0, 300)}` } : {}),
  };
}
