import { callOnce, callStream } from './rpc.ts';

/** Methods that an extension of a running master has. */
export interface ExtensionClient {
  /** One value. `T` is what the extension promises for the method. @throws RemoteError */
  call<T>(method: string, parameters?: object): Promise<T>;
  /** A stream; ends with the signal. @throws RemoteError from the iteration */
  stream<T>(method: string, parameters?: object, signal?: AbortSignal): AsyncIterable<T>;
}

/**
 * An extension of the master whose local socket this is.
 * @param extension - its name, for instance `bridge`
 */
export function connectExtension(socketPath: string, extension: string): ExtensionClient {
  return {
    call: (method, parameters = {}) => callOnce(socketPath, `${extension}.${method}`, parameters),
    stream: (method, parameters = {}, signal) =>
      callStream(socketPath, `${extension}.${method}`, parameters, signal),
  };
}
