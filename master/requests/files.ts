/**
 * The file server's requests, as a master answers them that serves no files [WIRE 9.8]: minions
 * tell a missing file by an empty text, an empty `dest` or an empty `path`, each where it belongs.
 */
import { type Handler, send } from './request.ts';

export const fileRequests: Readonly<Record<string, Handler>> = {
  _serve_file: async () => send({ data: '', dest: '' }),
  _file_hash: async () => send(''),
  _file_hash_and_stat: async () => send(['', null]),
  _file_find: async () => send({ path: '', rel: '' }),
  _file_list: async () => send([]),
  _file_list_emptydirs: async () => send([]),
  _dir_list: async () => send([]),
  _symlink_list: async () => send({}),
  _file_envs: async () => send(['base']),
  _file_recv: async () => send(false),
};
