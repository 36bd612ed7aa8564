/**
 * The `saltutil` runner [salt/runners/saltutil.py]. Salt copies modules from its file server to
 * itself with it. This master has none to copy: the answer is that nothing was.
 */
import { type FunctionTable, type MasterFunction, masterFunction } from './function.ts';
import { ignored } from './parameters.ts';

/** In the order in which Salt copies them. */
const kinds: readonly string[] = [
  'clouds',
  'modules',
  'states',
  'grains',
  'renderers',
  'returners',
  'output',
  'proxymodules',
  'runners',
  'wheel',
  'engines',
  'thorium',
  'queues',
  'pillar',
  'utils',
  'sdb',
  'cache',
  'fileserver',
  'tops',
  'tokens',
  'serializers',
  'executors',
  'roster',
  'wrapper',
];

/** Kinds whose function is not called after them. */
const functionNames: ReadonlyMap<string, string> = new Map([
  ['tokens', 'sync_eauth_tokens'],
  ['fileserver', 'sync_fileserver'],
]);

const parameters = {
  saltenv: ignored,
  extmod_whitelist: ignored,
  extmod_blacklist: ignored,
} as const;

export const saltutilRunner: FunctionTable = {
  'saltutil.sync_all': masterFunction({
    summary: 'Copies nothing, and says so: this master runs no modules of a file server.',
    parameters,
    call: () => Object.fromEntries(kinds.map((kind) => [kind, []])),
  }),
  ...Object.fromEntries(
    kinds.map((kind): [string, MasterFunction] => [
      `saltutil.${functionNames.get(kind) ?? `sync_${kind}`}`,
      masterFunction({
        summary: `Copies no ${kind}, and says so: this master runs no modules of a file server.`,
        parameters,
        call: () => [],
      }),
    ]),
  ),
};
