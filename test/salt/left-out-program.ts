/**
 * A program that starts a master without one of Salt's services. It prints as JSON what exists of
 * the service: loaded files, request types, runners, wheel functions, options, and methods of the
 * local socket.
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
const { request } = await import('node:http');
const { resolveMasterConfig } = await import('#config');
const { masterServices, coreMethods } = await import('#master');
const { createMemoryStore } = await import('#store');
const { createMemoryTransport } = await import('#minion-protocol/transport/memory-transport.ts');
const { createMaster } = await import('#server');
const { saltServiceNames } = await import('#salt');

const rootDir = mkdtempSync(path.join(tmpdir(), 'saltbridge-left-out-'));
const left = saltServiceNames.find((name) => name === service);
let requestTypes = (): readonly string[] => [];
const master = createMaster({
  config: resolveMasterConfig({ rootDir }),
  store: createMemoryStore(),
  transports: [createMemoryTransport().master],
  extensions: [
    {
      name: 'probe',
      open: async (host) => {
        const { requests } = host.use(masterServices.contributions);
        requestTypes = () => [...requests.keys()];
        return {};
      },
    },
  ],
  ...(left === undefined ? {} : { without: [left] }),
});
await master.start();
const runners = Object.keys(await master.runners.docs());
const wheel = Object.keys(await master.wheel.docs());
const options = wheel.includes('config.values')
  ? Object.keys(Object((await master.wheel.run({ fun: 'config.values' })).return))
  : [];
const socketPath = master.config.socket;
const methods: string[] = [];
for (const name of coreMethods().keys()) {
  // No method has this parameter, so no method is executed.
  const answer = await call(name, { none: true });
  if (!answer.includes('ERR_RPC_UNKNOWN_METHOD')) methods.push(name);
}
const requests = requestTypes();
await master.close();
rmSync(rootDir, { recursive: true });
process.stdout.write(JSON.stringify({ loaded, requests, runners, wheel, options, methods }));

function call(method: string, parameters: object): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path: `/rpc/${method}`, method: 'POST' }, async (answer) =>
      resolve(Buffer.concat(await answer.toArray()).toString()),
    );
    sent.on('error', reject).end(JSON.stringify(parameters));
  });
}
