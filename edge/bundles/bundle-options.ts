/** Options that a bundle may contain, and the paths in their values. */

import path from 'node:path';
import { ConfigError, isSetting, type Setting, type Settings, sectionOf } from '#config';

/**
 * Top-level options that a release may contain. For all other options, a site uses its own
 * configuration.
 */
const saltNames: ReadonlySet<string> = new Set([
  'default_top',
  'env_order',
  'ext_pillar',
  'ext_pillar_first',
  'failhard',
  'file_ignore_glob',
  'file_ignore_regex',
  'file_roots',
  'fileserver_followsymlinks',
  'fileserver_ignoresymlinks',
  'jinja_env',
  'jinja_lstrip_blocks',
  'jinja_sls_env',
  'jinja_trim_blocks',
  'keep_jobs_seconds',
  'mine_get',
  'minion_data_cache_events',
  'nodegroups',
  'peer',
  'peer_run',
  'pillar_includes_override_sls',
  'pillar_merge_lists',
  'pillar_opts',
  'pillar_raise_on_missing',
  'pillar_roots',
  'pillar_safe_render_error',
  'pillar_source_merging_strategy',
  'pillarenv',
  'presence_events',
  'reactor',
  'renderer',
  'saltbridge',
  'schedule',
  'state_aggregate',
  'state_auto_order',
  'state_events',
  'state_top',
  'state_top_saltenv',
  'top_file_merging_strategy',
]);

/** Options under `saltbridge:` that a release may contain. */
const ownNames: ReadonlySet<string> = new Set([
  'acl',
  'bridge',
  'mine_trusts_grains',
  'pillar_trusts_grains',
  'reactions',
]);

/** Sections under `saltbridge: bridge:` that a release may contain. */
const bridgeNames: ReadonlySet<string> = new Set(['catalog']);

/** Modules of `ext_pillar` that a release may contain. */
const extPillarModules: ReadonlySet<string> = new Set(['minion_files']);

/** Options whose values are paths or contain paths. */
const pathOptions = ['file_roots', 'pillar_roots', 'ext_pillar', 'reactor'] as const;

/** Option that contains a path. Paths of `catalog` may be relative. */
export type PathOption = (typeof pathOptions)[number] | 'catalog';

/** Returns an error for each option that a release must not contain. */
export function refusedOptions(settings: Settings): readonly ConfigError[] {
  const own = sectionOf(settings, 'saltbridge');
  return [
    ...refusedNames(settings, saltNames),
    ...refusedNames(own, ownNames),
    ...refusedNames(sectionOf(own, 'bridge'), bridgeNames),
    ...refusedModules(settings.get('ext_pillar')),
  ];
}

function refusedNames(settings: Settings, allowed: ReadonlySet<string>): readonly ConfigError[] {
  return [...settings]
    .filter(([name]) => !allowed.has(name))
    .map(([, { origin }]) => refusal(origin));
}

function refusedModules(setting: Setting | undefined): readonly ConfigError[] {
  const items = Array.isArray(setting?.value) ? setting.value : [];
  const isRefused = items.some(
    (item) =>
      !(item instanceof Map) || [...item.keys()].some((name) => !extPillarModules.has(name)),
  );
  return setting !== undefined && isRefused ? [refusal(setting.origin)] : [];
}

function refusal(origin: Setting['origin']): ConfigError {
  const problem = 'not possible in a release: each site sets this option in its own configuration';
  return new ConfigError('ERR_OPTION_CONFLICT', origin, problem);
}

/** Returns a copy of the settings with each path replaced. */
export function mapPaths(
  settings: Settings,
  replace: (place: string, option: PathOption) => string,
): Settings {
  const mapped = new Map(settings);
  for (const option of pathOptions) {
    const setting = settings.get(option);
    if (setting === undefined) continue;
    const map = (text: string): string => (path.isAbsolute(text) ? replace(text, option) : text);
    mapped.set(option, mapTexts(setting, map));
  }
  const own = sectionOf(settings, 'saltbridge');
  const bridge = sectionOf(own, 'bridge');
  const catalog = bridge.get('catalog');
  if (catalog === undefined) return mapped;
  const places = mapTexts(catalog, (text) => replace(text, 'catalog'));
  const inBridge = withValue(own, 'bridge', new Map(bridge).set('catalog', places));
  return withValue(mapped, 'saltbridge', inBridge);
}

function withValue(settings: Settings, name: string, value: Settings): Settings {
  const former = settings.get(name);
  const origin = former?.origin ?? { file: 'options', line: 0, key: name };
  return new Map(settings).set(name, { value, origin });
}

/** Replaces all strings in the value of a setting, except for the keys of maps. */
function mapTexts(setting: Setting, replace: (text: string) => string): Setting {
  const { value, entries, ...rest } = setting;
  return {
    ...rest,
    value: mapValue(value, replace),
    ...(entries === undefined ? {} : { entries: entries.map((it) => mapTexts(it, replace)) }),
  };
}

function mapValue(value: unknown, replace: (text: string) => string): unknown {
  if (typeof value === 'string') return replace(value);
  if (Array.isArray(value)) return value.map((item) => mapValue(item, replace));
  if (!(value instanceof Map)) return value;
  return new Map(
    [...value].map(([key, inner]) => [
      key,
      isSetting(inner) ? mapTexts(inner, replace) : mapValue(inner, replace),
    ]),
  );
}

/** Returns a copy of the settings that contains only the options that a release may contain. */
export function permittedOptions(settings: Settings): Settings {
  const own = only(sectionOf(settings, 'saltbridge'), ownNames);
  const bridge = only(sectionOf(sectionOf(settings, 'saltbridge'), 'bridge'), bridgeNames);
  const inOwn = own.has('bridge') ? withValue(own, 'bridge', bridge) : own;
  const permitted = only(settings, saltNames);
  return permitted.has('saltbridge') ? withValue(permitted, 'saltbridge', inOwn) : permitted;
}

function only(settings: Settings, allowed: ReadonlySet<string>): Settings {
  return new Map([...settings].filter(([name]) => allowed.has(name)));
}
