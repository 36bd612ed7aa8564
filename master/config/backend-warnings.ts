/** What of `external_auth` lets nobody log in, told at the start. */
import { readBackend } from './backends.ts';
import type { MasterConfig } from './options.ts';
import { placeOf } from './place.ts';
import { isSettings, type Settings } from './settings.ts';
import type { ConfigWarning } from './warnings.ts';

export function warnOfBackends(config: MasterConfig, settings: Settings): ConfigWarning[] {
  const setting = settings.get('external_auth');
  const entries = isSettings(setting?.value) ? setting.value : undefined;
  return Object.keys(config.externalAuth).flatMap((name) => {
    const read = readBackend(name, config);
    if (!('problem' in read)) return [];
    const origin = entries?.get(name)?.origin ?? { file: 'options', line: 0, key: 'external_auth' };
    const message = `${placeOf(origin)}: external_auth: ${name}: ${read.problem}; nobody can log in by it`;
    return [{ kind: 'rights', ...origin, message }];
  });
}
