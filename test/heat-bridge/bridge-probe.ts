/**
 * A program that starts a master with a bridge and prints what the bridge added to it. Arguments: a
 * directory, the section `bridge:`, and the option `extensions` of the bridge, both as JSON.
 */

import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

const loaded: string[] = [];
registerHooks({
  load: (url, context, next) => {
    if (url.startsWith('file:')) loaded.push(fileURLToPath(url));
    return next(url, context);
  },
});

/** Output of the program. */
export interface ProbeReport {
  /** Modules that were loaded, by their paths in the project. */
  readonly loaded: readonly string[];
  readonly methods: readonly string[];
  readonly routes: readonly string[];
  /** Number of file server backends that the bridge added. */
  readonly files: number;
  readonly runners: readonly string[];
  readonly metrics: readonly string[];
}

const [, , directory = '', bridgeSection = '{}', extensions = '{}'] = process.argv;
const { fastify } = await import('fastify');
const { createBridge } = await import('#guests');
const { resolveMasterConfig } = await import('#config');
const { isRpcMethod, masterServices } = await import('#master');
const { createMemoryTransport } = await import('#minion-protocol/transport/memory-transport.ts');
const { createMaster } = await import('#server');
const { createMemoryStore } = await import('#store');
const { directories, writeMasterKeys } = await import('../helpers/vector-master.ts');

const config = resolveMasterConfig({
  ...directories(directory),
  bridge: JSON.parse(bridgeSection),
});
writeMasterKeys(config.pkiDir);
const bridge = createBridge({ extensions: JSON.parse(extensions) });
let contributions: { files: readonly object[]; minionRunners: ReadonlyMap<string, unknown> } = {
  files: [],
  minionRunners: new Map(),
};
const master = createMaster({
  config,
  store: createMemoryStore(),
  transports: [createMemoryTransport().master],
  extensions: [
    bridge,
    {
      name: 'probe',
      open: async (host) => {
        contributions = host.use(masterServices.contributions);
        return {};
      },
    },
  ],
});
await master.start();

const app = fastify();
const routes: string[] = [];
app.addHook('onRoute', ({ url }) => {
  routes.push(url);
});
await app.register(async (scope) =>
  bridge.http.register(scope, {
    tokenOf: () => undefined,
    closing: AbortSignal.abort(),
    streams: { tryEnter: () => undefined },
    sendPool: { open: () => neverCalled() },
    readJson: async () => undefined,
  }),
);
const root = fileURLToPath(new URL('../../', import.meta.url));
const report: ProbeReport = {
  loaded: loaded
    .filter((it) => it.startsWith(root) && !it.includes('node_modules'))
    .map((it) => it.slice(root.length)),
  methods: namesOf(bridge.http.methods().bridge ?? {}),
  routes,
  files: contributions.files.length,
  runners: [...contributions.minionRunners.keys()],
  metrics: (await master.metrics()).map(({ name }) => name),
};
await app.close();
await master.close();
process.stdout.write(JSON.stringify(report));

function namesOf(table: object, prefix = ''): string[] {
  return Object.entries(table).flatMap(([name, entry]) =>
    isRpcMethod(entry) ? [`${prefix}${name}`] : namesOf(entry, `${prefix}${name}.`),
  );
}

function neverCalled(): never {
  throw new TypeError('no stream is opened here');
}
