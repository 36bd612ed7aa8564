/** Roles of the arguments of all runners and wheel functions that a master has. */

import test from 'ava';
import { isWireMap } from '#minion-protocol';
import { positionNames, roleOf } from '#salt/reactor/argument-roles.ts';
import { startFleet } from '../../helpers/fleet.ts';

/**
 * Arguments that are neither targets, patterns nor function names. If a function or a parameter is
 * new, decide whether it belongs here or in salt/reactor/argument-roles.ts.
 */
const data = `
auth.del_token: token
auth.mk_token: username password eauth token_expire
cache.clear_all:
cache.clear_grains:
cache.clear_mine:
cache.clear_mine_func:
cache.clear_pillar:
cache.fetch: bank key cachedir
cache.flush: bank key cachedir
cache.grains:
cache.list: bank cachedir
cache.mine:
cache.pillar:
cache.store: bank key data cachedir
config.get: key default delimiter
doc.execution:
doc.runner: name
doc.wheel: name
event.send: tag data
fileserver.clear_cache: backend
fileserver.clear_file_list_cache: saltenv backend
fileserver.clear_lock: backend remote
fileserver.dir_list: saltenv backend
fileserver.empty_dir_list: saltenv backend
fileserver.envs: backend sources
fileserver.file_list: saltenv backend
fileserver.lock: backend remote
fileserver.symlink_list: saltenv backend
fileserver.update: backend
git_pillar.update: branch repo
http.query: url output method params data header_dict header_list username password agent decode decode_type status headers text raise_error node backend hide_fields
jobs.active: display_progress
jobs.exit_success: jid ext_source
jobs.last_run: ext_source outputter metadata display_progress
jobs.list_job: jid ext_source display_progress
jobs.list_jobs: ext_source outputter search_metadata start_time end_time display_progress
jobs.list_jobs_filter: count filter_find_job ext_source outputter display_progress
jobs.lookup_jid: jid ext_source returned missing display_progress
jobs.master:
jobs.print_job: jid ext_source
manage.alived: show_ip
manage.allowed: show_ip
manage.down: removekeys timeout gather_job_timeout
manage.joined: show_ip
manage.list_not_state: show_ip
manage.list_state: show_ip
manage.not_alived: show_ip
manage.not_allowed: show_ip
manage.not_joined: show_ip
manage.not_present: show_ip
manage.not_reaped: show_ip
manage.present: show_ip
manage.reaped: show_ip
manage.status: output timeout gather_job_timeout
manage.up: timeout gather_job_timeout
manage.versions:
match.compound_matches:
mine.get:
mine.update: clear
pillar.show_pillar: saltenv pillarenv
pillar.show_top: saltenv pillarenv
queue.delete: queue items backend
queue.insert: queue backend
queue.insert_runner: queue backend
queue.list_items: queue backend
queue.list_length: queue backend
queue.list_queues: backend
queue.pop: queue quantity backend is_runner
queue.process_queue: queue quantity backend is_runner
queue.process_runner: quantity queue backend
reactor.add: saltenv test
reactor.delete: saltenv test
reactor.list: saltenv test
salt.cmd:
salt.execute: arg timeout ret jid kwarg
saltutil.sync_all: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_cache: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_clouds: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_eauth_tokens: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_engines: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_executors: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_fileserver: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_grains: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_modules: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_output: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_pillar: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_proxymodules: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_queues: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_renderers: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_returners: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_roster: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_runners: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_sdb: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_serializers: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_states: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_thorium: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_tops: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_utils: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_wheel: saltenv extmod_whitelist extmod_blacklist
saltutil.sync_wrapper: saltenv extmod_whitelist extmod_blacklist
sdb.delete: uri
sdb.get: uri
sdb.get_or_set_hash: uri length chars
sdb.set: uri value
state.event: count quiet sock_dir pretty node
state.orch: saltenv test pillar pillarenv pillar_enc orchestration_jid
state.orch_show_sls: saltenv test queue pillar pillarenv pillar_enc
state.orchestrate: saltenv test pillar pillarenv pillar_enc orchestration_jid
state.orchestrate_show_sls: saltenv test queue pillar pillarenv pillar_enc
state.orchestrate_single: test queue pillar
state.sls: saltenv test pillar pillarenv pillar_enc orchestration_jid
state.soft_kill: jid state_id
survey.diff:
survey.hash:
test.arg:
test.sleep: s_time
test.stdout_print:
config.values:
file_roots.find: path saltenv
file_roots.list_env: saltenv
file_roots.list_roots:
file_roots.read: path saltenv
file_roots.write: data path saltenv index
key.accept: include_rejected include_denied fingerprint
key.accept_dict: include_rejected include_denied
key.delete:
key.delete_dict:
key.finger: hash_type
key.finger_master: hash_type
key.gen: keysize
key.gen_accept: keysize force
key.list:
key.list_all:
key.master_key_str:
key.name_match:
key.print:
key.reject: include_accepted include_denied fingerprint
key.reject_dict: include_accepted include_denied
minions.connected:
`;

test('each argument of a runner or wheel function has a role in reactor files', async (t) => {
  const { master } = await startFleet(t, { ids: [] });
  const found: string[] = [];
  for (const fun of ['doc.runner', 'doc.wheel']) {
    const { return: docs } = await master.runners.run({ fun });
    if (!isWireMap(docs)) return t.fail(fun);
    for (const [name, doc] of Object.entries(docs)) {
      const parameters = parametersOf(String(doc));
      const listed = positionNames(name);
      t.deepEqual(parameters.slice(0, listed.length), listed, name);
      const rest = parameters.filter((it) => roleOf(name, it) === 'data');
      found.push([`${name}:`, ...rest].join(' '));
    }
  }
  t.deepEqual(found, data.trim().split('\n'));
});

/** Returns the names of the parameters, from the signature in the last line of a documentation. */
function parametersOf(doc: string): string[] {
  const [, signature = ''] = /\((.*)\)$/.exec(doc.split('\n').at(-1) ?? '') ?? [];
  return [...signature.matchAll(/(?:^|, )([a-z_]+)(?==|,|$)/g)].map(([, name = '']) => name);
}
