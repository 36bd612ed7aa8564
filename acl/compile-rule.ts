/** A rule made ready for being asked: nothing of it is compiled again at a request. */
import { compileDataSchema } from './data-schema.ts';
import { PolicyError } from './errors.ts';
import { lacksName } from './named-functions.ts';
import {
  asList,
  compileArguments,
  compileTexts,
  describeTexts,
  orRefuse,
  type Place,
} from './patterns.ts';
import { parseRate, RateMeter } from './rate.ts';
import type { CallPattern, PolicyRule, RuleAction, SignalPattern, TextPatterns } from './rule.ts';
import { keyOf, type RuleKey } from './rule-key.ts';
import { type CompiledSubject, compileSubject, describeSubject } from './subject.ts';
import type { MinionTest, PolicyWorld } from './syntax.ts';
import { compileTagPattern } from './tag-pattern.ts';
import type { Call, EventResource, Subject } from './types.ts';

/** One thing of what is asked: a job with several functions is asked about one by one. */
export interface Request {
  readonly subject: Subject;
  readonly action: RuleAction;
  /** Tag, function, path or operation. */
  readonly text: string;
  /** `undefined`: its arguments are not known yet. */
  readonly call?: Call;
  /** What it is for, or whose mine it is; `undefined`: not known. */
  readonly minions?: readonly string[];
  readonly event?: EventResource;
}

/** What a rule says of a request; each tells what is in the way, if anything is. */
interface CompiledResource {
  /** One for each of its patterns. */
  readonly keys: readonly RuleKey[];
  readonly meansText: (text: string, subject: Subject) => boolean;
  /** But for the minions. */
  readonly obstacle: (request: Request) => string | undefined;
  /** The minions that it is limited to. Default: none is left out. */
  readonly among?: MinionLimit;
}

/** Which minions a rule is limited to. */
interface MinionLimit extends Pick<MinionTest, 'isEntitled' | 'mayMean'> {
  /** What is in the way where a minion is another one. */
  readonly obstacle: string;
}

/** A rule that can be asked. */
export interface CompiledRule {
  readonly rule: PolicyRule;
  /** Place in the policy; the first one that decides is named. */
  readonly order: number;
  readonly subject: CompiledSubject;
  readonly resource: CompiledResource;
  /** Milliseconds since 1970; `Infinity`: never. */
  readonly expiresAt: number;
  readonly meter: RateMeter | undefined;
  /** Whether targets may ask for the pillar of minions that it permits. */
  readonly showsPillar: boolean;
  /** Why it decides, in one sentence. */
  readonly reason: string;
}

const ownNames: ReadonlySet<string> = new Set(['default-deny', 'learning']);

/** @throws PolicyError */
export function compileRule(rule: PolicyRule, order: number, world: PolicyWorld): CompiledRule {
  if (ownNames.has(rule.name)) {
    const problem = 'decisions without a rule have this name; choose another one';
    throw new PolicyError('ERR_POLICY_FORM', { rule: rule.name, field: '' }, problem);
  }
  if (rule.effect === 'deny' && rule.rate !== undefined) {
    const place = { rule: rule.name, field: 'rate' };
    throw new PolicyError('ERR_POLICY_FORM', place, 'a rule that denies has no rate');
  }
  if (rule.effect === 'deny' && showsPillar(rule)) {
    const place = { rule: rule.name, field: 'resource.facts' };
    throw new PolicyError('ERR_POLICY_FORM', place, 'a rule that denies shows no facts');
  }
  return {
    rule,
    order,
    subject: compileSubject(rule, world),
    resource: compileResource(rule, world),
    expiresAt: rule.expires === undefined ? Infinity : parseTime(rule.expires, rule.name),
    meter: rule.rate === undefined ? undefined : new RateMeter(parseRate(rule.rate, rule.name)),
    showsPillar: showsPillar(rule),
    reason: `${describeSubject(rule.subject)} ${verbs[rule.effect]} ${describeResource(rule)}`,
  };
}

/** Whether targets may ask for the pillar of the minions that a rule permits. */
export function showsPillar({ resource }: PolicyRule): boolean {
  return 'facts' in resource && resource.facts === 'pillar';
}

const verbs: Readonly<Record<PolicyRule['effect'], string>> = { allow: 'has', deny: 'has not' };

function describeResource(rule: PolicyRule): string {
  return `${rule.action} ${describeTexts(textsOf(rule))}`;
}

/** The texts that a rule is about: tags, functions, paths, operations. */
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

function compileResource(rule: PolicyRule, world: PolicyWorld): CompiledResource {
  const place = (field: string): Place => ({ rule: rule.name, field: `resource.${field}` });
  switch (rule.action) {
    case 'signal':
      return compileSignal(rule.resource, rule.effect, world, place);
    case 'publish':
      return compilePublish(rule, world, place);
    case 'runner':
    case 'wheel':
      return byName(rule, compileCall(rule.resource, rule.effect, world, place));
    case 'command':
      return compileWithin(rule, world, place);
    case 'mine': {
      const { fun, owner = '*' } = rule.resource;
      const compiled = byText(fun, world, place('fun'));
      if (owner === '*') return compiled;
      const isOwner = compileTexts(owner, world, place('owner'));
      const obstacle = 'the owner is another one';
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
  world: PolicyWorld,
  place: (field: string) => Place,
): CompiledResource {
  // A glob of wildcards alone would permit every tag; then one might as well not ask.
  if (effect === 'allow' && !namesATag(tag)) {
    throw new PolicyError('ERR_POLICY_PATTERN', place('tag'), 'expected a letter or a digit in it');
  }
  const pattern = compileTagPattern(tag, world, place('tag'));
  const fits = schema === undefined ? undefined : compileDataSchema(schema, world, place('schema'));
  return {
    keys: [pattern.key],
    meansText: pattern.matches,
    obstacle: ({ event }) => {
      if (bytes < (event?.bytes?.() ?? 0)) return `it is larger than ${bytes} bytes`;
      return fits?.(event?.data) === false ? 'its data do not fit the schema' : undefined;
    },
  };
}

/** Whether a glob on tags names something of its own. */
export function namesATag(glob: string): boolean {
  return /[\p{L}\p{N}]/u.test(glob.replace(/\[[^\]]*\]/g, ''));
}

function compilePublish(
  rule: PolicyRule & { readonly action: 'publish' },
  world: PolicyWorld,
  place: (field: string) => Place,
): CompiledResource {
  const compiled = compileWithin(rule, world, place);
  const { environment = '*' } = rule.resource;
  const inEnvironment = compileTexts(environment, world, place('environment'));
  return {
    ...compiled,
    obstacle: (request) => {
      const given = request.call?.kwargs.get('saltenv');
      if (given !== undefined && !inEnvironment(given)) return 'the environment is another one';
      return compiled.obstacle(request);
    },
  };
}

function compileWithin(
  { effect, resource }: PolicyRule & { readonly action: 'publish' | 'command' },
  world: PolicyWorld,
  place: (field: string) => Place,
): CompiledResource {
  const { within, ...call } = resource;
  const compiled = compileCall(call, effect, world, place);
  if (within === undefined) return compiled;
  const obstacle = `not all of the target is within ${within}`;
  const test =
    effect === 'deny'
      ? orRefuse(place('within'), () => world.target(within, 'compound'))
      : (readable(() => world.target(within, 'compound')) ?? nobody);
  // protection: within
  return { ...compiled, among: { ...test, obstacle } };
}

const nobody = { isEntitled: (): boolean => false, mayMean: (): boolean => false };

/** A target of Salt's options that cannot be read permits nothing, and takes nothing else away. */
function readable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function compileCall(
  { fun, arguments: conditions }: CallPattern,
  effect: PolicyRule['effect'],
  world: PolicyWorld,
  place: (field: string) => Place,
): CompiledResource {
  const meets = compileArguments(conditions, world, place('arguments'));
  const isMetUnknown = effect === 'allow' || conditions === undefined;
  return {
    ...byText(fun, world, place('fun')),
    obstacle: ({ call }) => {
      const isMet = call === undefined ? isMetUnknown : meets(call);
      return isMet ? undefined : 'the arguments are not those that it asks for';
    },
  };
}

/** Some functions are permitted only where they are named. */
function byName(
  { effect, action, resource: { fun } }: PolicyRule & { readonly action: 'runner' | 'wheel' },
  compiled: CompiledResource,
): CompiledResource {
  if (effect === 'deny') return compiled;
  return {
    ...compiled,
    obstacle: (request) => {
      // protection: functions-by-pattern
      if (lacksName(action, request.text, fun)) return `it does not name ${request.text} itself`;
      return compiled.obstacle(request);
    },
  };
}

function byText(patterns: TextPatterns, world: PolicyWorld, place: Place): CompiledResource {
  return {
    keys: asList(patterns).map(keyOf),
    meansText: compileTexts(patterns, world, place),
    obstacle: () => undefined,
  };
}

function parseTime(text: string, rule: string): number {
  const isIso = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const time = isIso ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  const problem = 'expected a date, or a time with its zone: 2027-01-31, 2027-01-31T12:00:00Z';
  throw new PolicyError('ERR_POLICY_PATTERN', { rule, field: 'expires' }, problem);
}
