export { createContext, type MasterContext, type StoreDisk } from './context.ts';
