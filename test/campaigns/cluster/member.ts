/**
 * A master of the campaign `cluster`: `member.js DIRECTORY HISTORY`. It is what `saltbridge master`
 * runs, with the ledger, and a clock that its parent sets by messages. Its log goes to stderr. Ends
 * with 3 when its store and the log do not have the same history.
 */

import { loadSaltConfig } from '#config';
import { createLogger } from '#master';
import { codeOf } from '#runtime';
import { createMasterServer } from '#server';
import { Ledger } from './ledger.ts';
import type { MemberEnd, MemberOrder } from './member-process.ts';

const [, , directory = '', historyFile = '', clockMs = '0'] = process.argv;
const { config } = await loadSaltConfig(directory);
let aheadMs = Number(clockMs);
const server = await createMasterServer({
  config,
  logger: createLogger('info', process.stderr),
  now: () => Date.now() + aheadMs,
  extensions: [new Ledger(historyFile)],
});

async function end(error: Error | undefined): Promise<never> {
  const told: MemberEnd = { code: codeOf(error), message: error?.message ?? '' };
  await new Promise<void>((resolve) => {
    if (process.send === undefined || error === undefined) resolve();
    else process.send(told, () => resolve());
  });
  process.exit(error === undefined ? 0 : 3);
}

process.on('message', ({ clockMs: ms }: MemberOrder) => {
  aheadMs = ms;
});
process.once('disconnect', () => process.exit(0));
process.once('SIGTERM', () => void server.close());
void server.master.closed.then(end);
try {
  await server.start();
} catch (error) {
  await end(error instanceof Error ? error : new Error(String(error)));
}
