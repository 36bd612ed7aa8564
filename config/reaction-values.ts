/** Creates reactions with defaults, and returns the values that their actions use. */

import type {
  CallValue,
  MappedValue,
  Reaction,
  ReactionAction,
  ReactionOptions,
  RunAction,
} from './reaction.ts';

/**
 * Returns a reaction for `resolveMasterConfig({ reactions: […] })`. Its subject in the policy is
 * the service `reaction:<name>`, and it may perform only actions that rules permit to this service.
 */
export function reaction(name: string, options: ReactionOptions): Reaction {
  return {
    throttleSeconds: 0,
    throttleKey: [],
    maxConcurrent: 1,
    queue: 100,
    timeoutSeconds: 300,
    rate: '60/minute',
    ...options,
    name,
  };
}

/** Returns the globs on tags of a reaction. */
export function globsOf({ on }: Pick<Reaction, 'on'>): readonly string[] {
  return typeof on === 'string' ? [on] : on;
}

/** Prefix of the service names by which access rules refer to reactions: `reaction:<name>`. */
const ofReaction = 'reaction:';

/** Returns the subject that access rules use for a reaction: the service `reaction:<name>`. */
export function serviceOf(name: string): { readonly kind: 'service'; readonly name: string } {
  return { kind: 'service', name: `${ofReaction}${name}` };
}

/**
 * Whether a requester is a reaction, which is a service. A user with the same name is of another
 * kind.
 */
export function isReaction({ kind, name }: Readonly<Record<'kind' | 'name', string>>): boolean {
  return kind === 'service' && name.startsWith(ofReaction);
}

/** Whether a value is a reference to the event. */
export function isMapped(value: unknown): value is MappedValue {
  return typeof value === 'object' && value !== null && 'from' in value;
}

/** Returns the values of a call, each with the path of its field. */
export function valuesOf(action: ReactionAction): (readonly [field: string, value: CallValue])[] {
  if ('sls' in action) return [];
  if ('command' in action) {
    const { params = {} } = action.command;
    return Object.entries(params).map(([name, value]) => [`do.command.params.${name}`, value]);
  }
  const kind = 'run' in action ? 'run' : 'runner';
  const { args = [], kwargs = {} } = 'run' in action ? action.run : action.runner;
  return [
    ...args.map((value, place) => [`do.${kind}.args.${place}`, value] as const),
    ...Object.entries(kwargs).map(([name, value]) => [`do.${kind}.kwargs.${name}`, value] as const),
  ];
}

/** Returns the ids in a target that is a list. Returns none for other targets. */
export function listedIds(action: ReactionAction): readonly (string | MappedValue)[] {
  const target = targetedOf(action)?.target;
  return typeof target === 'object' && 'list' in target ? target.list : [];
}

/**
 * Returns the target of an action, and as `kind` whether the action runs a job or a named command.
 * Returns `undefined` if the action has no target.
 */
export function targetedOf(
  action: ReactionAction,
): (Pick<RunAction, 'target' | 'tgtType'> & { readonly kind: 'run' | 'command' }) | undefined {
  if ('run' in action) return { kind: 'run', ...action.run };
  return 'command' in action ? { kind: 'command', ...action.command } : undefined;
}
