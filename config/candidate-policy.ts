import { readFile } from 'node:fs/promises';
import type { PolicyRule } from '#acl';
import { ConfigError } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { rulesOf } from './policy-rules.ts';
import { completeSettings } from './read-config.ts';
import { mainFileOf, parseConfigFile, readConfigFiles } from './read-files.ts';
import { isSettings, overrideSettings, type Settings } from './settings.ts';

/** A candidate policy, and the configuration with this policy in place of the configured policy. */
interface CandidatePolicy {
  readonly config: MasterConfig;
  readonly rules: readonly PolicyRule[];
}

/**
 * Reads a policy file as if it were in `master.d`, except that its `saltbridge: acl:` replaces the
 * whole policy of the configuration. Other options that grant permissions (`peer`, `mine_get`, …)
 * come from the file if it has them, otherwise from the configuration.
 * @throws ConfigError, see {@link configErrors}
 */
export async function loadCandidatePolicy(
  directory: string,
  file: string,
): Promise<CandidatePolicy> {
  const mainFile = mainFileOf(directory);
  const { settings } = await readConfigFiles(mainFile);
  const candidate = parseConfigFile(await read(file), file);
  const whole = overrideSettings(withoutRules(settings), candidate);
  const { config, problems } = completeSettings(whole, mainFile);
  const mistake = ConfigError.of(problems);
  if (mistake !== undefined) throw mistake;
  return { config, rules: rulesOf(config) };
}

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    const origin = { file, line: 0, key: '' };
    throw new ConfigError('ERR_CONFIG_READ', origin, 'the file cannot be read', { cause });
  }
}

function withoutRules(settings: Settings): Settings {
  const own = settings.get('saltbridge');
  const acl = isSettings(own?.value) ? own.value.get('acl') : undefined;
  if (!isSettings(own?.value) || !isSettings(acl?.value)) return settings;
  const rest = new Map(acl.value);
  rest.delete('rules');
  rest.delete('signals');
  const value = new Map(own.value).set('acl', { ...acl, value: rest });
  return new Map(settings).set('saltbridge', { ...own, value });
}
