/** What of `ext_pillar` is not asked, told at the start. */
import { extPillarAdvice } from './advice/ext-pillar.ts';
import { extPillarModules } from './ext-pillar-entries.ts';
import { placeOf } from './place.ts';
import { entriesOf } from './plain-data.ts';
import type { Settings } from './settings.ts';
import type { ConfigWarning } from './warnings.ts';

/** The modules of an option `ext_pillar` that are not served, each once. */
export function unservedExtPillars(value: unknown): readonly string[] {
  const names = [value].flat().flatMap((item) => (entriesOf(item) ?? []).map(([name]) => name));
  return [...new Set(names)].filter((name) => !extPillarModules.includes(name));
}

/** One for each module that is not served: minions get nothing from it. */
export function warnOfExtPillar(settings: Settings): ConfigWarning[] {
  const setting = settings.get('ext_pillar');
  if (setting === undefined) return [];
  return unservedExtPillars(setting.value).map((name) => ({
    kind: 'not-served',
    ...setting.origin,
    message: `${placeOf(setting.origin)}: ext_pillar: ${name} ${describe(name)}`,
  }));
}

function describe(name: string): string {
  const advice = extPillarAdvice(name);
  return advice === undefined
    ? `is none of the modules that are served, which are ${extPillarModules.join(' and ')}`
    : `is not served: ${advice}`;
}
