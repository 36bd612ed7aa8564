/** Valid loads of each request type of minions. The matrix replaces one field at a time. */

import type { WireMap } from '#minion-protocol';

const mine = { tgt: '*', fun: 'test.ping', tgt_type: 'glob' };
const file = { path: 'a.txt', saltenv: 'base' };
const list = { saltenv: 'base', prefix: '' };
const peer = { fun: 'test.ping', arg: [], kwarg: {}, tgt: '*', tgt_type: 'glob', tmo: 1, ret: '' };
const event = { tag: 'site/x', data: { a: 1 }, events: [], pretag: 'p' };
const tops = { opts: { grains: { os: 'x' }, saltenv: 'base', pillar: {} } };

/** Loads by `cmd`. A request type without a load fails a test. */
export const minionLoads: Readonly<Record<string, WireMap>> = {
  _return: {
    jid: 'req',
    fun: 'test.ping',
    fun_args: [],
    return: true,
    retcode: 0,
    success: true,
    out: 'nested',
    user: 'x',
    metadata: {},
    schedule: 'x',
    resource_id: 'x',
  },
  _minion_event: event,
  _register_resources: { resources: { dummy: ['r1'] }, resource_grains: { r1: { os: 'x' } } },
  revoke_auth: { preserve_minion_cache: false },
  _master_opts: { env_only: true },
  verify_minion: { token: 'x' },
  _syndic_return: { jid: 'req', return: {} },
  _pillar: {
    grains: { os: 'x' },
    saltenv: 'base',
    pillarenv: 'base',
    pillar_override: {},
    extra_minion_data: {},
    ver: '2',
    ext: {},
    clean_cache: false,
  },
  _mine: { data: { 'test.ping': true }, clear: false },
  _mine_get: { ...mine, expr_form: 'glob' },
  _mine_delete: { fun: 'test.ping' },
  _mine_flush: { fun: 'x' },
  minion_pub: peer,
  minion_publish: { ...peer, form: 'full', delimiter: ':' },
  minion_runner: { fun: 'saltbridge_data.get', arg: [], kwarg: { key: 'x' }, tmo: 1 },
  pub_ret: { jid: '20260101000000000000' },
  _master_tops: tops,
  _ext_nodes: tops,
  _serve_file: { ...file, loc: 0, gzip: 5 },
  _file_hash: file,
  _file_hash_and_stat: file,
  _file_find: file,
  _file_list: list,
  _file_list_emptydirs: list,
  _dir_list: list,
  _symlink_list: list,
  _file_envs: { saltenv: 'base' },
  _file_recv: { path: ['a', 'b'], size: 1, loc: 0, data: 'x', gzip: 1 },
};

/** Loads of unencrypted requests by `cmd`. The matrix sends them from 256 addresses of one network. */
export const clearLoads: Readonly<Record<string, WireMap>> = {
  _auth: {
    id: 'new',
    pub: 'x',
    token: 'x',
    nonce: '0'.repeat(32),
    enc_algo: 'OAEP-SHA1',
    sig_algo: 'PKCS1v15-SHA1',
    autosign_grains: { os: 'x' },
  },
  ping: {},
};

/** Fields that the envelope adds to each load. */
export const envelopeFields: readonly string[] = ['cmd', 'id', 'tok', 'nonce', 'ts'];
