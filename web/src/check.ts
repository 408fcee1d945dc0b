// The page of a check: its table is enhanced by table.ts.
import { addTheme } from "./theme";

addTheme();
