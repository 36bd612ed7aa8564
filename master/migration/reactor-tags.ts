/** Tags that a site's reactor listens for, and that nobody may emit. */
import { compileGlob } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import { placeOf } from '../config/place.ts';
import { rulesOf } from '../config/policy-rules.ts';
import type { Settings } from '../config/settings.ts';
import type { ConfigWarning } from '../config/warnings.ts';
import { enginePrefixes, reactorPatterns } from './listeners.ts';
import { planSignals } from './signal-plan.ts';

const maxNamed = 5;

/**
 * One warning where Salt's `reactor:` has tags that need a rule and have none. Tags that the master
 * fires itself, that minions emit without any rule, and that a template decides are no such ones.
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
  const text = `reactor: nobody may emit ${unheard.length} of its tags (${named}${more}); saltbridge migrate check writes rules for them`;
  const { origin } = setting;
  return [{ kind: 'unheard', ...origin, message: `${placeOf(origin)}: ${text}` }];
}

/** Whether some tag may be meant by both; where wildcards stand in both, by what they begin with. */
function mayMeet(rule: string, pattern: string): boolean {
  if (literalBegin(pattern) === pattern) return compileGlob(rule)(pattern);
  if (literalBegin(rule) === rule) return compileGlob(pattern)(rule);
  const [begin, other] = [literalBegin(rule), literalBegin(pattern)];
  return begin.startsWith(other) || other.startsWith(begin);
}

function literalBegin(glob: string): string {
  return glob.replace(/[*?[].*$/s, '');
}

function withoutPlaceholders(tag: string): string {
  return tag.replace(/\$\{[^}]*\}/g, '*');
}
