/**
 * Arguments of a state that only the state runtime reads [salt/state.py]. The function of the state
 * does not receive them.
 */

/** Kinds of requisites. */
export const requisiteKinds: ReadonlySet<string> = new Set([
  'onchanges',
  'onchanges_any',
  'onfail',
  'onfail_any',
  'onfail_all',
  'onfail_stop',
  'prereq',
  'prerequired',
  'watch',
  'watch_any',
  'require',
  'require_any',
  'listen',
]);

const others: readonly string[] = [
  'onchanges_in',
  'onfail_in',
  'prereq_in',
  'watch_in',
  'require_in',
  'listen_in',
  'fun',
  'state',
  'check_cmd',
  'cmd_opts_exclude',
  'failhard',
  'onlyif',
  'unless',
  'creates',
  'retry',
  'order',
  'name_order',
  'parallel',
  'reload_modules',
  'reload_grains',
  'reload_pillar',
  'runas',
  'runas_password',
  'fire_event',
  'saltenv',
  'umask',
  'use',
  'use_in',
];

/** Arguments that are handled by the state runtime and never passed to a state's function. */
export const internalArguments: ReadonlySet<string> = new Set([...requisiteKinds, ...others]);
