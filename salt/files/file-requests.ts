/**
 * Request handlers of the file server [WIRE 9.8; salt/fileserver/__init__.py]. For a missing file,
 * the reply has an empty string, an empty `dest` or an empty `path`, depending on the request. The
 * size of each reply counts towards the minion's rate limit before the reply is built. The work for
 * file lists that are not in the cache counts, too. A request over the limit is delayed.
 */

import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Logger } from 'pino';
import type { HashType } from '#config';
import {
  anyLoad,
  defineRequestType,
  type FileMeter,
  type FoundFile,
  type MasterContext,
  type OpenExtension,
  type Reply,
  send,
  type Users,
  type VerifiedRequest,
} from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { FileServer, ServedFile } from '../file-trees/file-server.ts';
import { type ListKind, PackedLists } from '../file-trees/packed-lists.ts';
import { packFileChunk } from './file-chunk.ts';
import { type PushedFiles, pushedPath } from './pushed-files.ts';

type RequestType = NonNullable<OpenExtension['requests']>[string];

export interface FileRequestOptions {
  readonly server: FileServer;
  readonly pushed: PushedFiles;
  readonly meter: FileMeter;
  readonly hashType: HashType;
  /** `file_buffer_size`: maximum number of bytes of a file in one reply. */
  readonly bufferBytes: number;
  readonly gate: Users['gate'];
  readonly counters: MasterContext['counters'];
  readonly log: Logger;
}

const compress = promisify(gzip);

/**
 * Defines a request type that reads files. Its handler counts the size of the reply towards the
 * minion's rate limit.
 */
function fileRequest(
  handle: (request: VerifiedRequest, load: WireMap) => Promise<Reply>,
): RequestType {
  return defineRequestType({
    kind: 'read',
    needsToken: false,
    rate: 'own',
    load: anyLoad,
    handle,
  });
}

export function fileRequests(options: FileRequestOptions): NonNullable<OpenExtension['requests']> {
  const { server, meter } = options;
  const find = ({ load }: VerifiedRequest): Promise<ServedFile | undefined> =>
    server.find(load.path, load.saltenv);
  const packed = new PackedLists();
  const list = (kind: ListKind): RequestType =>
    fileRequest(async (request, { saltenv, prefix }) => {
      const requester = meter.listRequester(request);
      const lists = await server.lists(saltenv, requester);
      const start = typeof prefix === 'string' ? prefix : '';
      const pieces = await packed.pack(lists, kind, start, requester);
      await meter.pass(
        request,
        pieces.reduce((sum, { length }) => sum + length, 0),
      );
      return { kind: 'packed', pieces };
    });
  return {
    _serve_file: fileRequest(async (request) => serveFile(request, await find(request), options)),
    _file_hash: fileRequest(async (request) => {
      await meter.pass(request, 0);
      return send(await hashOf(await find(request), options.hashType));
    }),
    _file_hash_and_stat: fileRequest(async (request) => {
      await meter.pass(request, 0);
      const found = await find(request);
      const stat = found === undefined ? null : statList(found.file.stat);
      return send([await hashOf(found, options.hashType), stat]);
    }),
    _file_find: fileRequest(async (request) => {
      await meter.pass(request, 0);
      const found = await find(request);
      if (found === undefined) return send({ path: '', rel: '' });
      // The reply must not contain the path on the master, but an empty path would mean that the
      // file is missing.
      const { path, back, file } = found;
      return send({ path, rel: path, stat: statList(file.stat), back });
    }),
    _file_list: list('files'),
    _file_list_emptydirs: list('emptyDirs'),
    _dir_list: list('dirs'),
    _symlink_list: list('links'),
    _file_envs: fileRequest(async (request) => {
      await meter.pass(request, 0);
      return send(server.envs());
    }),
    _file_recv: fileRecvRequest(options),
  };
}

async function serveFile(
  request: VerifiedRequest,
  found: ServedFile | undefined,
  { meter, bufferBytes }: FileRequestOptions,
): Promise<Reply> {
  const { loc } = request.load;
  const isOffset = typeof loc === 'number' && Number.isSafeInteger(loc) && loc >= 0;
  if (found === undefined || !isOffset) {
    await meter.pass(request, 0);
    return send({ data: '', dest: '' });
  }
  const { path, file } = found;
  await meter.pass(request, Math.max(0, Math.min(bufferBytes, file.stat.size - loc)));
  const data = await file.read(loc, bufferBytes);
  const level = gzipLevel(request.load.gzip);
  if (level === undefined || data.length === 0) {
    return { kind: 'packed', pieces: packFileChunk({ data, dest: path }) };
  }
  const pieces = packFileChunk({ data: await compress(data, { level }), dest: path, gzip: level });
  return { kind: 'packed', pieces };
}

/**
 * Returns the compression level of a request, 1 to 9. Returns `undefined` for other values, so that
 * the data is sent uncompressed.
 */
function gzipLevel(gzip: WireValue | undefined): number | undefined {
  if (typeof gzip !== 'number' || !Number.isInteger(gzip)) return undefined;
  return gzip >= 1 && gzip <= 9 ? gzip : undefined;
}

async function hashOf(found: ServedFile | undefined, type: HashType): Promise<WireValue> {
  if (found === undefined) return '';
  return { hash_type: type, hsum: await found.file.hash(type) };
}

/** Returns the metadata of a file in the order of Python's `os.stat_result`. */
function statList(stat: FoundFile['stat']): number[] {
  return [
    stat.mode,
    stat.inode,
    stat.device,
    stat.links,
    stat.uid,
    stat.gid,
    stat.size,
    stat.accessedAt,
    stat.modifiedAt,
    stat.changedAt,
  ];
}

/** Handles `_file_recv`: a part of a file that a minion pushes [WIRE 9.9]. */
function fileRecvRequest(options: FileRequestOptions): RequestType {
  const { pushed, gate, meter, counters, log } = options;
  return defineRequestType({
    kind: 'write',
    needsToken: true,
    rate: 'own',
    load: anyLoad,
    handle: async (request, load) => {
      const { minionId, bytes } = request;
      await meter.pass(request, bytes);
      // The key may have been deleted while the request waited.
      if (!request.isKeyCurrent()) return send(false);
      const subject = { kind: 'minion', id: minionId } as const;
      const path = pushedPath(load);
      if (path === undefined) return send(false);
      const question = { subject, action: 'file-send', resource: { path } } as const;
      if (gate.decide(question).effect === 'deny') return send(false);
      try {
        const isTaken = await pushed.take(minionId, load);
        if (!isTaken) counters.count('push-refused');
        return send(isTaken);
      } catch (error) {
        log.error({ minion: minionId, err: error }, 'cannot store a file that a minion pushed');
        return send(false);
      }
    },
  });
}
