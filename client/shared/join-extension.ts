/** The holder's side: other processes join it by a stream at its local socket, which ends with it. */

import { once } from 'node:events';
import Type from 'typebox';
import type { MasterConfig } from '#config';
import { extensionStream, type MasterExtension } from '#master';
import { RemoteError } from '../errors.ts';
import { SharedMasterError } from './errors.ts';
import { differingOptions, digestOptions, type OptionDigests } from './option-digests.ts';

/** Name of the extension; the method is `processes.join`. */
export const extensionName = 'processes';

/** What a process says of itself when it joins. */
export interface JoinRequest {
  readonly pid: number;
  /** Of the digests, any text. */
  readonly salt: string;
  readonly options: OptionDigests;
}

/** The only item of the stream. */
export interface Joined {
  /** Of the holder. */
  readonly pid: number;
}

/** Processes that may have joined: each of them is a connection. */
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

/** For the master that other processes join. */
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
          const message = `${maxProcesses} processes have joined process ${process.pid} already`;
          throw new RemoteError('ERR_WAITING_CALLS', message, { wasSent: false });
        }
        processes += 1;
        logger.info({ pid }, 'process joined');
        try {
          yield { pid: process.pid };
          if (!end.aborted) await once(end, 'abort');
        } finally {
          processes -= 1;
          logger.info({ pid }, 'process left');
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
  const message = `other options than process ${process.pid}, which holds the master: ${names.join(', ')}`;
  return new SharedMasterError('ERR_OPTIONS_DIFFER', message);
}
