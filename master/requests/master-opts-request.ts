import type { LiveConfig, MasterConfig } from '#config';
import type { WireMap, WireValue } from '#minion-protocol';
import { send } from '../auth/index.ts';
import { anyLoad, defineRequestType, type RequestType } from './request-type.ts';

/**
 * Defines `_master_opts`: returns the master's options for states. With `env_only`, it returns only
 * the options about environments [WIRE 9.7].
 */
export function masterOptsRequest(config: LiveConfig, envs: () => readonly string[]): RequestType {
  const { topFileMergingStrategy, envOrder, defaultTop } = config.fixed;
  const environments: WireMap = {
    top_file_merging_strategy: topFileMergingStrategy,
    env_order: [...envOrder],
    default_top: defaultTop,
  };
  let states = stateOptions(config.all);
  config.onChange(() => {
    states = stateOptions(config.all);
  });
  return defineRequestType({
    kind: 'read',
    needsToken: false,
    rate: 'requests',
    load: anyLoad,
    handle: async (_request, load) => {
      // Only the names of environments are returned, because minions must not learn the paths of
      // the files.
      const fileRoots = Object.fromEntries(envs().map((env) => [env, []]));
      const always = { file_roots: fileRoots, ...environments };
      return send(load.env_only === true ? always : { ...always, ...states });
    },
  });
}

function stateOptions(config: MasterConfig): WireMap {
  return {
    renderer: config.renderer,
    failhard: config.failhard,
    state_top: config.stateTop,
    state_top_saltenv: config.stateTopSaltenv,
    nodegroups: Object.fromEntries(
      Object.entries(config.nodegroups).map(([name, group]) => [name, listOrPlain(group)]),
    ),
    state_auto_order: config.stateAutoOrder,
    state_events: config.stateEvents,
    state_aggregate: listOrPlain(config.stateAggregate),
    jinja_env: config.jinjaEnv,
    jinja_sls_env: config.jinjaSlsEnv,
    jinja_lstrip_blocks: config.jinjaLstripBlocks,
    jinja_trim_blocks: config.jinjaTrimBlocks,
  };
}

function listOrPlain(value: string | boolean | readonly string[]): WireValue {
  return typeof value === 'object' ? [...value] : value;
}
