export { createContext, type MasterContext } from './context.ts';
