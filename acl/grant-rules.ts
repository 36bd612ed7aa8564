/** Converts grants of Salt's options (`peer`, `peer_run`, `mine_get`) to rules. */

import { allow, type CallPattern, type PolicyRule, type TextPattern } from './rule.ts';
import type { FunctionGrant, Grant, GrantPattern } from './salt-grants.ts';
import type { RuleOrigin } from './types.ts';

/**
 * Converts the grants of one option to rules with the name of this option. Each rule contains the
 * expressions of its grant.
 */
export function grantRules(
  option: string,
  action: 'publish' | 'runner' | 'mine',
  grants: readonly Grant[],
  origin?: RuleOrigin,
): PolicyRule[] {
  const place = origin === undefined ? {} : { origin };
  return grants.flatMap(({ minion, functions }) => {
    const subject = { minion: toText(minion) };
    return functions.flatMap((entry): PolicyRule[] => {
      if (action === 'mine') {
        // Requests for mine functions have no arguments, so a condition on arguments is never met.
        if (entry.conditions.some((it) => it.args.length + it.kwargs.size > 0)) return [];
        const resource = { fun: toFunction(entry.fun) };
        return [allow(option, { subject, action, resource, ...place })];
      }
      const within = entry.within === undefined ? {} : { within: entry.within };
      const call = toCallPattern(entry);
      return [
        action === 'publish'
          ? allow(option, { subject, action, resource: { ...call, ...within }, ...place })
          : allow(option, { subject, action, resource: call, ...place }),
      ];
    });
  });
}

/** Converts a granted function and its conditions to a call pattern. */
export function toCallPattern({ fun, conditions }: FunctionGrant): CallPattern {
  if (conditions.length === 0) return { fun: toFunction(fun) };
  return {
    fun: toFunction(fun),
    arguments: conditions.map(({ args, kwargs }) => ({
      args: args.map(toCondition),
      kwargs: Object.fromEntries([...kwargs].map(([name, it]) => [name, toCondition(it)])),
    })),
  };
}

function toCondition(pattern: GrantPattern | null): TextPattern | null {
  return pattern === null ? null : toText(pattern);
}

/**
 * Converts a regular expression to a text pattern. An expression that is a plain word becomes a
 * literal, because the rule index finds literals without evaluating them.
 */
function toText({ source }: GrantPattern): TextPattern {
  return /^\w+$/.test(source) ? source : { regex: source };
}

/**
 * Converts a regular expression for function names to a pattern. A plain name such as `test.ping`
 * becomes a literal, although `.` matches any character in a regular expression. The literal
 * matches the same functions, because every function name contains a dot.
 */
function toFunction(pattern: GrantPattern): TextPattern {
  return /^\w+\.\w+$/.test(pattern.source) ? pattern.source : toText(pattern);
}
