/**
 * Extension through which other processes join the master of this process. A process joins by
 * opening a stream on the master's local socket. The stream ends when the master's process ends.
 */

import { once } from 'node:events';
import Type from 'typebox';
import type { MasterConfig } from '#config';
import { extensionStream, type MasterExtension } from '#master';
import { RemoteError } from '../errors.ts';
import { SharedMasterError } from './errors.ts';
import { differingOptions, digestOptions, type OptionDigests } from './option-digests.ts';

/** Name of the extension. Its method is `processes.join`. */
export const extensionName = 'processes';

/** Parameters with which a process joins. */
export interface JoinRequest {
  readonly pid: number;
  /**
   * Random text (cryptographic salt) with which this process has computed the digests of its
   * options. Any text is valid.
   */
  readonly salt: string;
  readonly options: OptionDigests;
}

/** The only item of the stream. It is sent when the process has joined. */
export interface Joined {
  /** Process id of the process that runs the master. */
  readonly pid: number;
}

/** Maximum number of other processes that use this master. Each of them occupies a connection. */
const maxProcesses = 64;

const Text = Type.String({ maxLength: 256 });
const JoinParameters = Type.Object(
  {
    pid: Type.Integer(),
    salt: Text,
    options: Type.Record(Text, Text),
  },
  { additionalProperties: false },
);

/** Creates the extension through which other processes join a master. */
export function createJoinExtension(): MasterExtension {
  return {
    name: extensionName,
    open: async ({ config, reloadable, logger }) => {
      let processes = 0;
      const inForce = (): MasterConfig => {
        const { limits, ...changed } = reloadable();
        return { ...config, ...changed, limits: { ...config.limits, ...limits } };
      };
      const join = async function* (
        { pid, salt, options }: JoinRequest,
        end: AbortSignal,
      ): AsyncGenerator<Joined, void, void> {
        const names = differingOptions(options, digestOptions(inForce(), salt));
        if (names.length > 0) throw optionsDiffer(names);
        if (processes >= maxProcesses) {
          const message = `cannot join the master of process ${process.pid}: the maximum of ${maxProcesses} processes has joined it`;
          throw new RemoteError('ERR_WAITING_CALLS', message, { wasSent: false });
        }
        processes += 1;
        logger.info({ pid }, 'another process joined the shared master');
        try {
          yield { pid: process.pid };
          if (!end.aborted) await once(end, 'abort');
        } finally {
          processes -= 1;
          logger.info({ pid }, 'another process left the shared master');
        }
      };
      return {
        rpc: {
          join: extensionStream({
            parameters: JoinParameters,
            access: 'host',
            call: (_master, request, end) => join(request, end),
          }),
        },
        close: async () => {},
      };
    },
  };
}

function optionsDiffer(names: readonly string[]): SharedMasterError {
  const message = `cannot join the master of process ${process.pid}: these options have other values there: ${names.join(', ')}`;
  return new SharedMasterError('ERR_OPTIONS_DIFFER', message);
}
