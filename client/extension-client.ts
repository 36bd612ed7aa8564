import { connectionTo, type LocalMaster } from './connection.ts';
import { callOnce, callStream } from './rpc.ts';

/** Methods that an extension of a running master has. */
export interface ExtensionClient {
  /** One value. `T` is what the extension promises for the method. @throws RemoteError */
  call<T>(method: string, parameters?: object): Promise<T>;
  /** A stream; ends with the signal. @throws RemoteError from the iteration */
  stream<T>(method: string, parameters?: object, signal?: AbortSignal): AsyncIterable<T>;
}

/**
 * An extension of a master on this host, by its local socket.
 * @param extension - its name, for instance `bridge`
 */
export function connectExtension(master: LocalMaster, extension: string): ExtensionClient {
  const connection = connectionTo(master);
  return {
    call: (method, parameters = {}) => callOnce(connection, `${extension}.${method}`, parameters),
    stream: (method, parameters = {}, signal) =>
      callStream(connection, `${extension}.${method}`, parameters, signal),
  };
}
