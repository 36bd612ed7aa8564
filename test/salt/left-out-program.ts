/**
 * Starts a master without one of Salt's services, and prints as JSON what of the service is there:
 * the loaded files, the runners and the wheel functions.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';

const loaded: string[] = [];
registerHooks({
  load: (url, context, next) => {
    loaded.push(url);
    return next(url, context);
  },
});

const [, , service] = process.argv;
const { resolveMasterConfig } = await import('#config');
const { createMemoryStore } = await import('#store');
const { createMemoryTransport } = await import('#minion-protocol');
const { createMaster } = await import('#server');
const { saltServiceNames } = await import('#salt');

const rootDir = mkdtempSync(path.join(tmpdir(), 'saltbridge-left-out-'));
const left = saltServiceNames.find((name) => name === service);
const master = createMaster({
  config: resolveMasterConfig({ rootDir }),
  store: createMemoryStore(),
  transports: [createMemoryTransport().master],
  ...(left === undefined ? {} : { without: [left] }),
});
await master.start();
const runners = Object.keys(await master.runners.docs());
const wheel = Object.keys(await master.wheel.docs());
await master.close();
rmSync(rootDir, { recursive: true });
process.stdout.write(JSON.stringify({ loaded, runners, wheel }));
