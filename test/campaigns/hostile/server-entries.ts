/** Entries of the matrix for the answers of other servers. */

import { askedServers } from './asked-servers.ts';
import type { Entry, Outcome } from './entry.ts';
import type { HostileSite } from './site.ts';
import { httpSpoils, rawSpoils, type SpoilingServer } from './spoiling-server.ts';

/** Bytes that the program may read from a server in one case: four answers of 32 MiB. */
const maxBytes = 128 * 1024 * 1024;
/** If a case has more requests, bytes that the program may read for each of them. */
const maxBytesOfRequest = 33 * 1024 * 1024;
/** Requests that the program may send to a server in one case. */
const maxRequests = 100;
/** Messages of errors that only a defect of the program causes. */
const defectText =
  /undefined|null|not a function|not iterable|Maximum call stack|before initialization/;

/**
 * Returns the entries.
 * @throws Error if the program does not accept an honest answer
 */
export async function serverEntries(site: HostileSite): Promise<readonly Entry[]> {
  const entries: Entry[] = [];
  for (const [name, server] of Object.entries(askedServers)) {
    const { honest, ask } = await server.open(site);
    site.asked.prepare(honest);
    await ask().catch((cause: unknown) => {
      throw new Error(`the honest answer of the server ${name} is not accepted`, { cause });
    });
    const { requests } = await site.asked.take();
    if (requests === 0) throw new Error(`the server ${name} was not asked`);
    const groups =
      'raw' in honest
        ? { message: rawSpoils }
        : { ...httpSpoils, body: ['body', ...(server.fields ?? []).map((it) => `body.${it}`)] };
    for (const [group, fields] of Object.entries(groups)) {
      entries.push({
        name: `server ${name}, ${group}`,
        fields,
        maxBytes: 1_048_576,
        prepare: (field, value) => () => {
          site.asked.prepare(honest, { field, value });
          return outcomeOf(ask, site.asked);
        },
      });
    }
  }
  return entries;
}

async function outcomeOf(ask: () => Promise<unknown>, asked: SpoilingServer): Promise<Outcome> {
  const error: unknown = await ask().then(
    () => undefined,
    (reason: unknown) => reason ?? new Error('rejected without a reason'),
  );
  const { requests, bytes, strays } = await asked.take();
  const text = error instanceof Error ? `${error.name}: ${error.message}` : '';
  const isDefect = error instanceof TypeError && defectText.test(error.message);
  const defect = [
    ...(bytes > Math.max(maxBytes, requests * maxBytesOfRequest) ? [`it read ${bytes} bytes`] : []),
    ...(requests > maxRequests ? [`it sent ${requests} requests`] : []),
    ...(strays > 0 ? ['it asked a server that only the answer names'] : []),
    ...(isDefect || error instanceof ReferenceError ? [text] : []),
  ].join('; ');
  const answer = error === undefined ? 'accepted' : 'refused';
  return { answer, ...(defect === '' ? {} : { defect }) };
}
