/**
 * Meaning of the arguments of runners and wheel functions. The reactor uses it to decide in which
 * arguments text from an event is allowed.
 */

/**
 * Meaning of one argument:
 * - `data`: any text.
 * - `literal`: name or list of names. Event text must not contain characters of patterns.
 * - `target`: event text must be the id of a minion.
 * - `kind`: type of a target. Event text is refused.
 * - `plain`: function name, compound target or tag pattern. Event text is refused.
 * - `calls`: calls of runners, as maps. The arguments in them are judged as those of the runner.
 * - `positions`, `keywords`: arguments of the runner that the argument `fun` names.
 */
export type Role =
  | 'data'
  | 'literal'
  | 'target'
  | 'kind'
  | 'plain'
  | 'calls'
  | 'positions'
  | 'keywords';

type Roles = Readonly<Record<string, Role>>;

/**
 * Roles of arguments that {@link roles} does not list, by the name of the argument. They also apply
 * to keys of nested maps. Any other argument has the role `data`.
 */
const usual: ReadonlyMap<string, Role> = new Map<string, Role>([
  ...['tgt', 'target', 'match'].map((name) => [name, 'target'] as const),
  ...['tgt_type', 'expr_form'].map((name) => [name, 'kind'] as const),
  ...['fun', 'function', 'func', 'expr'].map((name) => [name, 'plain'] as const),
]);

const asked: Roles = { tgt: 'target', tgt_type: 'kind' };
const surveyed: Roles = { tgt: 'plain', fun: 'plain' };
const named: Roles = { subset: 'literal' };
const matched: Roles = { match: 'target' };
const sls: Roles = { mods: 'literal', saltenv: 'data', test: 'data', exclude: 'literal' };
const shownSls: Roles = { mods: 'literal' };
const ofMinion: Roles = { minion: 'target' };

/**
 * Roles of the arguments of each function, in the order of its parameters. Each list ends with the
 * last parameter whose role is not `data`.
 */
const roles: Readonly<Record<string, Roles>> = {
  'cache.clear_all': asked,
  'cache.clear_grains': asked,
  'cache.clear_mine': asked,
  'cache.clear_mine_func': { ...asked, clear_mine_func_flag: 'plain' },
  'cache.clear_pillar': asked,
  'cache.grains': asked,
  'cache.mine': asked,
  'cache.pillar': asked,
  'jobs.last_run': {
    ...{ ext_source: 'data', outputter: 'data', metadata: 'data' },
    ...{ function: 'plain', target: 'target' },
  },
  'jobs.list_jobs': {
    ...{ ext_source: 'data', outputter: 'data', search_metadata: 'data' },
    ...{ search_function: 'plain', search_target: 'target' },
  },
  'key.accept': matched,
  'key.accept_dict': matched,
  'key.delete': matched,
  'key.delete_dict': matched,
  'key.finger': matched,
  'key.gen': { id_: 'target' },
  'key.gen_accept': { id_: 'target' },
  'key.list': matched,
  'key.name_match': matched,
  'key.print': matched,
  'key.reject': matched,
  'key.reject_dict': matched,
  'manage.alived': named,
  'manage.allowed': named,
  'manage.down': { removekeys: 'data', ...asked },
  'manage.joined': named,
  'manage.list_not_state': named,
  'manage.list_state': named,
  'manage.not_alived': named,
  'manage.not_allowed': named,
  'manage.not_joined': named,
  'manage.not_present': named,
  'manage.not_reaped': named,
  'manage.present': named,
  'manage.reaped': named,
  'manage.status': { output: 'data', ...asked },
  'manage.up': asked,
  'match.compound_matches': { expr: 'plain', minion_id: 'target' },
  'mine.get': { tgt: 'target', fun: 'plain', tgt_type: 'kind' },
  'mine.update': { ...asked, clear: 'data', mine_functions: 'plain' },
  'pillar.show_pillar': ofMinion,
  'pillar.show_top': ofMinion,
  'queue.insert': { queue: 'data', items: 'calls' },
  'queue.insert_runner': { fun: 'plain', args: 'positions', kwargs: 'keywords' },
  'reactor.add': { event: 'plain', reactors: 'plain' },
  'reactor.delete': { event: 'plain' },
  'salt.cmd': { fun: 'plain' },
  'salt.execute': {
    ...{ tgt: 'target', fun: 'plain', arg: 'data', timeout: 'data' },
    tgt_type: 'kind',
  },
  'state.event': { tagmatch: 'plain' },
  'state.orch': sls,
  'state.orch_show_sls': shownSls,
  'state.orchestrate': sls,
  // The states of the module `salt` take the function that they call as their name.
  'state.orchestrate_single': { fun: 'plain', name: 'plain' },
  'state.orchestrate_show_sls': shownSls,
  'state.sls': sls,
  'survey.diff': surveyed,
  'survey.hash': surveyed,
};

/**
 * Returns the parameter names of a function that {@link roles} lists, in order. Returns no names
 * for other functions.
 */
export function positionNames(fun: string): readonly string[] {
  return Object.keys(rolesOf(fun));
}

/**
 * Returns the role of an argument, which determines how the argument is checked: for example as a
 * target, or as plain data. If {@link roles} does not list the argument of this function, the role
 * depends only on the argument's name.
 */
export function roleOf(fun: string, name: string): Role {
  const own = rolesOf(fun);
  return (Object.hasOwn(own, name) ? own[name] : usual.get(name)) ?? 'data';
}

function rolesOf(fun: string): Roles {
  return (Object.hasOwn(roles, fun) ? roles[fun] : undefined) ?? {};
}
