/** Detection of tags under `reactor:` that no minion may emit. */

import { literalPrefix } from '#acl';
import { compileGlob } from '#template/python/fnmatch.ts';
import { type ConfigWarning, placeOf } from './config-error.ts';
import { enginePrefixes, reactorPatterns } from './event-listeners.ts';
import type { MasterConfig } from './options.ts';
import { rulesOf } from './policy-rules.ts';
import type { Settings } from './settings.ts';
import { planSignals } from './signal-plan.ts';

const maxNamed = 5;

/**
 * Returns a warning if tags under Salt's `reactor:` require a signal rule, and the policy has no
 * such rule. Ignores tags that the master emits, tags that minions may emit without a rule, and
 * tags that contain a template.
 */
export function warnOfReactorTags(config: MasterConfig, settings: Settings): ConfigWarning[] {
  const setting = settings.get('reactor');
  const patterns = reactorPatterns(settings);
  if (setting === undefined || patterns.length === 0) return [];
  const permitted = rulesOf(config).flatMap((rule) =>
    rule.action === 'signal' && rule.effect === 'allow' ? [rule.resource.tag] : [],
  );
  const unheard = planSignals(patterns, enginePrefixes(settings))
    .rules.map(({ tag }) => tag)
    .filter((tag) => !permitted.some((rule) => mayMeet(withoutPlaceholders(rule), tag)));
  if (unheard.length === 0) return [];
  const named = unheard.slice(0, maxNamed).join(', ');
  const more = unheard.length > maxNamed ? ', …' : '';
  const text = `reactor: no rule allows minions to emit ${unheard.length} of the tags in this option (${named}${more}); saltbridge migrate check writes the rules`;
  const { origin } = setting;
  return [{ kind: 'unheard', ...origin, message: `${placeOf(origin)}: ${text}` }];
}

/**
 * Whether a tag may match both patterns. If both contain wildcards, compares only the texts before
 * the wildcards.
 */
function mayMeet(rule: string, pattern: string): boolean {
  if (literalPrefix(pattern) === pattern) return compileGlob(rule)(pattern);
  if (literalPrefix(rule) === rule) return compileGlob(pattern)(rule);
  const [begin, other] = [literalPrefix(rule), literalPrefix(pattern)];
  return begin.startsWith(other) || other.startsWith(begin);
}

function withoutPlaceholders(tag: string): string {
  return tag.replace(/\$\{[^}]*\}/g, '*');
}
