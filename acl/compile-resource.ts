import { compileDataSchema } from './data-schema.ts';
import { environmentsOf } from './environment-arguments.ts';
import { PolicyError } from './errors.ts';
import { indexKeyOf, type RuleIndexKey } from './index-keys.ts';
import { compileArguments } from './list-arguments.ts';
import { grainsGiveNoRight, type MinionTest, type PolicyEnvironment } from './policy-syntax.ts';
import { mustBeNamed } from './powerful-functions.ts';
import type { CallPattern, PolicyRule, RuleAction, SignalPattern, TextPatterns } from './rule.ts';
import { asList, compileTexts, orPatternError, type RuleField } from './rule-patterns.ts';
import { compileTagPattern } from './tag-patterns.ts';
import type { Call, EventResource, Subject } from './types.ts';

/**
 * Part of a question to the policy that is decided separately. For example, a job with several
 * functions becomes one request for each function.
 */
export interface Request {
  readonly subject: Subject;
  readonly action: RuleAction;
  /** Tag, function, path or operation that the request names. */
  readonly text: string;
  /** Function and arguments, or `undefined` if the arguments are not yet known. */
  readonly call?: Call;
  /**
   * Ids of the targeted minions. For a query of mine data, the id of the minion that owns the data.
   * `undefined` if they are not known.
   */
  readonly minions?: readonly string[] | undefined;
  /**
   * Id of the project for which the request creates or ends an enrolment. Absent in all other
   * requests. If absent, each minion counts as belonging to the project for which it was enrolled.
   */
  readonly project?: string | undefined;
  readonly event?: EventResource;
  /** Whether the request was already counted towards rate limits. Default: false. */
  readonly isRepeated?: boolean | undefined;
}

/**
 * Compiled form of the field `resource` of a rule. It tests whether the rule applies to a request.
 */
export interface CompiledResource {
  /** Keys for the rule index, one for each pattern. */
  readonly keys: readonly RuleIndexKey[];
  readonly meansText: (text: string, subject: Subject) => boolean;
  /**
   * Returns the reason why the rule does not apply to the request, or `undefined` if it applies.
   * Does not consider the minions of the request.
   */
  readonly obstacle: (request: Request) => string | undefined;
  /** Minions that the rule is limited to. Default: all. */
  readonly among?: MinionLimit;
  /**
   * Whether a minion was enrolled for the Keystone project that makes the request. Present only in
   * `allow` rules for named commands, and only if the rule has no `within`.
   */
  readonly isOwnGuest?: (request: GuestRequest, id: string) => boolean;
}

export type GuestRequest = Pick<Request, 'project' | 'subject'>;

/** Restriction of a rule to some minions. */
interface MinionLimit extends Pick<MinionTest, 'isEntitled' | 'mayMean'> {
  /** Message to a sender whose request names a minion to which the rule does not apply. */
  readonly obstacle: string;
  /** Compound target. The rule applies only to minions that match it. */
  readonly within?: string;
  /**
   * Whether a minion can match `within`, or one of its alternatives, by its grains alone. The rule
   * grants nothing to minions that match only in this way, because a minion can report any grains.
   */
  readonly restsOnGrains?: boolean;
}

/** Returns the texts that a rule matches: tags, functions, paths or operations. */
export function textsOf(rule: PolicyRule): TextPatterns {
  switch (rule.action) {
    case 'signal':
    case 'subscribe':
      return rule.resource.tag;
    case 'file-send':
      return rule.resource.path;
    case 'pillar':
      return rule.resource.environment;
    case 'key':
      return rule.resource.operation;
    default:
      return rule.resource.fun;
  }
}

export function compileResource(rule: PolicyRule, world: PolicyEnvironment): CompiledResource {
  const place = (field: string): RuleField => ({ rule: rule.name, field: `resource.${field}` });
  switch (rule.action) {
    case 'signal':
      return compileSignal(rule.resource, rule.effect, world, place);
    case 'publish':
      return compilePublish(rule, world, place);
    case 'runner':
    case 'wheel':
      return byName(rule, compileCall(rule.resource, rule, world, place));
    case 'command':
      return compileWithin(rule, world, place);
    case 'mine': {
      const { fun, owner = '*' } = rule.resource;
      const compiled = byText(fun, world, place('fun'));
      if (owner === '*') return compiled;
      const isOwner = compileTexts(owner, world, place('owner'));
      const obstacle =
        'the field `owner` of the rule does not match the minion that owns the mine data';
      return { ...compiled, among: { isEntitled: isOwner, mayMean: isOwner, obstacle } };
    }
    case 'file-send':
      return byText(rule.resource.path, world, place('path'));
    case 'pillar':
      return byText(rule.resource.environment, world, place('environment'));
    case 'key':
      return byText(rule.resource.operation, world, place('operation'));
    case 'subscribe':
      return byText(rule.resource.tag, world, place('tag'));
  }
}

function compileSignal(
  { tag, schema, bytes = Infinity }: SignalPattern,
  effect: PolicyRule['effect'],
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  // A glob of wildcards only would allow every tag and make the rule meaningless.
  if (effect === 'allow' && !isSpecificTagGlob(tag)) {
    throw new PolicyError('ERR_POLICY_PATTERN', place('tag'), 'must contain a letter or a digit');
  }
  const pattern = compileTagPattern(tag, world, place('tag'));
  const fits = schema === undefined ? undefined : compileDataSchema(schema, world, place('schema'));
  return {
    keys: [pattern.key],
    meansText: pattern.matches,
    obstacle: ({ event }) => {
      if (bytes < (event?.bytes?.() ?? 0)) return `the event is larger than ${bytes} bytes`;
      return fits?.(event?.data) === false
        ? 'the data of the event does not match the schema'
        : undefined;
    },
  };
}

/** Whether a tag glob contains a letter or digit. Such a glob does not match every tag. */
export function isSpecificTagGlob(glob: string): boolean {
  const withoutSets = glob.replace(/\[[^\]]*(\]?)/g, (set, end) => (end === '' ? set : ''));
  return /[\p{L}\p{N}]/u.test(withoutSets);
}

function compilePublish(
  rule: PolicyRule & { readonly action: 'publish' },
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const compiled = compileWithin(rule, world, place);
  const { environment = '*' } = rule.resource;
  if (environment === '*') return compiled;
  const inEnvironment = compileTexts(environment, world, place('environment'));
  return {
    ...compiled,
    obstacle: (request) => {
      const named = request.call === undefined ? [] : environmentsOf(request.call);
      const applies =
        named.length === 0 ||
        (rule.effect === 'deny' ? named.some(inEnvironment) : named.every(inEnvironment));
      if (!applies)
        return 'the saltenv of the request does not match the field `environment` of the rule';
      return compiled.obstacle(request);
    },
  };
}

function compileWithin(
  { effect, action, resource }: PolicyRule & { readonly action: 'publish' | 'command' },
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const { within, ...call } = resource;
  const compiled = compileCall(call, { action, effect }, world, place);
  if (within === undefined) {
    if (effect === 'deny' || action === 'publish') return compiled;
    return {
      ...compiled,
      isOwnGuest: ({ subject, project }, id) =>
        subject.kind === 'project' && (project ?? world.projectOf?.(id)) === subject.project.id,
    };
  }
  const test =
    effect === 'deny'
      ? orPatternError(place('within'), () => world.target(within, 'compound'))
      : (orUndefined(() => world.target(within, 'compound')) ?? noMinions);
  const restsOnGrains = effect === 'allow' && test.restsOnGrains === true;
  const limit = `the target contains minions outside ${within}`;
  const obstacle = restsOnGrains ? `${limit}; ${grainsGiveNoRight}` : limit;
  return { ...compiled, among: { ...test, obstacle, within, restsOnGrains } };
}

const noMinions: Pick<MinionTest, 'isEntitled' | 'mayMean' | 'restsOnGrains'> = {
  isEntitled: () => false,
  mayMean: () => false,
};

/**
 * Returns the result of `read`, or `undefined` if the target cannot be parsed. An invalid target in
 * Salt's options grants nothing, and must not make other grants fail.
 */
function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function compileCall(
  { fun, arguments: conditions }: CallPattern,
  { action, effect }: Pick<PolicyRule, 'action' | 'effect'>,
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const meets = compileArguments(conditions, { action, effect }, world, place('arguments'));
  const isMetUnknown = effect === 'allow' || conditions === undefined;
  return {
    ...byText(fun, world, place('fun')),
    obstacle: ({ call }) => {
      const isMet = call === undefined ? isMetUnknown : meets(call);
      return isMet ? undefined : 'the arguments do not meet the conditions of the rule';
    },
  };
}

/**
 * Makes an `allow` rule permit certain functions only if it contains their full names, without
 * wildcards. {@link mustBeNamed} determines these functions. For a `deny` rule, returns `compiled`
 * unchanged.
 */
function byName(
  { effect, action, resource: { fun } }: PolicyRule & { readonly action: 'runner' | 'wheel' },
  compiled: CompiledResource,
): CompiledResource {
  if (effect === 'deny') return compiled;
  return {
    ...compiled,
    obstacle: (request) => {
      if (mustBeNamed(action, request.text, fun))
        return `the rule does not name ${request.text} explicitly`;
      return compiled.obstacle(request);
    },
  };
}

function byText(
  patterns: TextPatterns,
  world: PolicyEnvironment,
  place: RuleField,
): CompiledResource {
  return {
    keys: asList(patterns).map(indexKeyOf),
    meansText: compileTexts(patterns, world, place),
    obstacle: () => undefined,
  };
}
