/**
 * `saltbridge/salt-api`: Salt's HTTP API (`rest_cherrypy`) for a master of this process, or for one
 * that `saltbridge/client` is connected to.
 *
 * @packageDocumentation
 */

export {
  createSaltApi,
  type SaltApi,
  SaltApiError,
  type SaltApiErrorCode,
  type SaltApiOptions,
  type SaltApiPlugin,
  type SaltApiPluginContext,
  type SaltApiTls,
} from '#salt-api';
