import type { WireMap } from '../../minion-protocol/index.ts';
import { type Handler, send } from './request.ts';

const environmentOptions: ReadonlySet<string> = new Set([
  'file_roots',
  'top_file_merging_strategy',
  'env_order',
  'default_top',
]);

/** Salt's defaults for the options that a highstate asks for [WIRE 9.7]. */
export const defaultMasterOpts: WireMap = {
  file_roots: { base: [] },
  top_file_merging_strategy: 'merge',
  env_order: [],
  default_top: 'base',
  renderer: 'jinja|yaml',
  failhard: false,
  state_top: 'top.sls',
  state_top_saltenv: null,
  nodegroups: {},
  state_auto_order: true,
  state_events: false,
  state_aggregate: false,
  jinja_env: {},
  jinja_sls_env: {},
  jinja_lstrip_blocks: false,
  jinja_trim_blocks: false,
};

/** `_master_opts`: the master's options for states; with `env_only` those of environments. */
export function masterOpts(options: WireMap): Handler {
  const environments = Object.fromEntries(
    Object.entries(options).filter(([name]) => environmentOptions.has(name)),
  );
  return async ({ load }) => send(load.env_only === true ? environments : options);
}
